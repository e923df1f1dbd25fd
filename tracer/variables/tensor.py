"""Tensors: every operation on one becomes a node of the graph, every question about its metadata an answer now."""
from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from tracer.graph.fake_tensors import is_symbolic
from tracer.graph_breaks import unsupported
from tracer.variables.base import VariableTracker
from tracer.variables.constant import BINARY, COMPARE, INPLACE, UNARY, ConstantVariable
from tracer.variables.sequences import SequenceVariable, SizeVariable, SliceVariable, TupleVariable

if TYPE_CHECKING:
    from torch import fx

    from tracer.sources import Source
    from tracer.variables.protocol import Tracer

METADATA = frozenset(
    "dtype device layout ndim is_cuda is_cpu is_sparse is_quantized is_mkldnn is_meta is_mps is_xpu is_nested itemsize "
    "requires_grad is_leaf retains_grad is_sparse_csr is_mtia is_xla is_ipu is_vulkan is_maia names".split()
)
VIEW_ATTRIBUTES = frozenset("T H mT mH real imag data".split())
DATA_METHODS = frozenset(
    "item tolist numpy data_ptr __array__ __index__ __int__ __float__ __bool__ __complex__ cpu_data untyped_storage "
    "storage _storage __reduce_ex__ __reduce__ __deepcopy__ backward register_hook share_memory_ pin_memory is_pinned "
    "__repr__ __str__ __format__ register_post_accumulate_grad_hook resize_ set_ apply_ map_ map2_ retain_grad "
    "__dlpack__ __dlpack_device__ _typed_storage storage_type is_shared is_set_to".split()
)


class TensorVariable(VariableTracker):
    """A tensor: `node` computes it in the graph, `fake` knows its metadata."""

    def __init__(self, node: fx.Node, fake: torch.Tensor, source: Source | None = None, cls: type = torch.Tensor) -> None:
        self.node = node
        self.fake = fake
        self.source = source
        self.cls = cls

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        return f"TensorVariable({self.node.name})"

    __repr__ = describe

    def graph_arg(self) -> Any:
        return self.node

    def hash_key(self, tx: Tracer) -> Any:
        return self

    def reconstruct(self, cg: Any) -> None:
        cg.load_graph_output(self)

    # -- attributes ----------------------------------------------------------------------------------------------

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        pending = tx.effects.attribute(self, name)
        if pending is not None:
            return pending
        if name == "shape":
            return self.size(tx)
        if name in METADATA:
            return ConstantVariable(getattr(self.fake, name))
        if name in VIEW_ATTRIBUTES:
            return tx.output.call_function(getattr, (self.node, name), {})
        if name == "__class__":
            return tx.class_variable(self.cls)
        static = inspect.getattr_static(self.cls, name, None)
        if static is None:
            return self._instance_attr(tx, name)
        if name == "grad":
            return self._grad(tx)
        if callable(static) or isinstance(static, (classmethod, staticmethod)):
            return TensorMethodVariable(self, name)
        unsupported("unsupported-attribute", value=self.describe(), name=name)

    def _instance_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if self.source is None:
            tx.raise_error(AttributeError, f"{self.cls.__name__!r} object has no attribute {name!r}")
        return tx.instance_attr(self, tx.output.inputs[self.source.name].real, name)

    def _grad(self, tx: Tracer) -> VariableTracker:
        if self.source is None:
            if self.fake.grad_fn is None and not self.fake.requires_grad:
                return ConstantVariable(None)
            unsupported("unsupported-attribute", value=self.describe(), name="grad")
        return tx.tensor_grad(self)

    def set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        if name in ("requires_grad", "data", "grad") or inspect.getattr_static(self.cls, name, None) is not None:
            unsupported("unsupported-attribute-store", value=self.describe(), name=name)
        if self.source is None:
            unsupported("unsupported-attribute-store", value="a tensor made in the graph", name=name)
        tx.effects.store_attribute(self, name, value)

    # -- sizes ---------------------------------------------------------------------------------------------------

    def size(self, tx: Tracer) -> SizeVariable:
        return SizeVariable([self.dimension(tx, dim) for dim in range(self.fake.dim())])

    def dimension(self, tx: Tracer, dim: int) -> VariableTracker:
        size = self.fake.shape[dim]
        return tx.output.measure(self.node, "size", dim, size) if is_symbolic(size) else ConstantVariable(size)

    def strides(self, tx: Tracer) -> list[VariableTracker]:
        return [
            tx.output.measure(self.node, "stride", dim, stride) if is_symbolic(stride) else ConstantVariable(stride)
            for dim, stride in enumerate(self.fake.stride())
        ]

    def length(self, tx: Tracer) -> VariableTracker:
        if self.fake.dim() == 0:
            tx.raise_error(TypeError, "len() of a 0-d tensor")
        return self.dimension(tx, 0)

    # -- operators -----------------------------------------------------------------------------------------------

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if not is_operand(other):
            return None
        left, right = (other.graph_arg(), self.node) if reflected else (self.node, other.graph_arg())
        return tx.output.call_function(BINARY[op], (left, right), {})

    def inplace(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if not is_operand(other):
            return None
        return tx.output.call_function(INPLACE[op], (self.node, other.graph_arg()), {})

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if not is_operand(other):
            return None
        return tx.output.call_function(COMPARE[op], (self.node, other.graph_arg()), {})

    def unary(self, tx: Tracer, op: str) -> VariableTracker | None:
        return tx.output.call_function(UNARY[op], (self.node,), {})

    def truth(self, tx: Tracer) -> bool:
        unsupported("data-dependent-branch", value=self.describe())

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        return tx.output.call_function(operator.getitem, (self.node, subscript(tx, key)), {})

    def set_item(self, tx: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        tx.output.call_function(operator.setitem, (self.node, subscript(tx, key), value.graph_arg()), {})

    def iterate(self, tx: Tracer) -> VariableTracker:
        if self.fake.dim() == 0:
            tx.raise_error(TypeError, "iteration over a 0-d tensor")
        return TupleVariable(tx.output.call_method("unbind", (self.node, 0), {}).unpack(tx)).iterate(tx)

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        unsupported("data-dependent-branch", value=self.describe())

    # -- methods -------------------------------------------------------------------------------------------------

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        own = _OWN_METHODS.get(name)
        if own is not None:
            result = own(tx, self, *args, **kwargs)
            if result is not None:
                return result
        if name in DATA_METHODS:
            return tx.data_method(self, name, args, kwargs)
        if inspect.getattr_static(self.cls, name, None) is None:
            return self._instance_attr(tx, name).call(tx, args, kwargs)
        graph_args = [tx.as_graph_arg(arg) for arg in args]
        graph_kwargs = {key: tx.as_graph_arg(arg) for key, arg in kwargs.items()}
        return tx.output.call_method(name, (self.node, *graph_args), graph_kwargs)


def is_operand(value: VariableTracker) -> bool:
    """Whether a tensor operator accepts `value`."""
    if value.is_constant():
        return isinstance(value.constant(), (int, float, complex))
    return isinstance(value, TensorVariable) or is_symbolic(getattr(value, "example", None))


def subscript(tx: Tracer, key: VariableTracker) -> Any:
    """A subscript as an FX argument: ints, slices, None, Ellipsis, tensors and lists of them."""
    if isinstance(key, (SliceVariable, TensorVariable)) or key.is_constant():
        return key.graph_arg()
    if isinstance(key, SequenceVariable):
        items = [subscript(tx, item) for item in key.items(tx)]
        return tuple(items) if issubclass(key.cls, tuple) else items
    return tx.as_graph_arg(key)


class TensorMethodVariable(VariableTracker):
    """A bound method of a tensor."""

    def __init__(self, owner: TensorVariable, name: str) -> None:
        self.owner = owner
        self.name = name

    def python_type(self) -> type:
        return type(torch.Tensor.sum)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name == "__self__":
            return self.owner
        if name == "__name__":
            return ConstantVariable(self.name)
        unsupported("unsupported-attribute", value=self.describe(), name=name)

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        return self.owner.call_method(tx, self.name, args, kwargs)

    def children(self) -> tuple[VariableTracker, ...]:
        return (self.owner,)

    def reconstruct(self, cg: Any) -> None:
        cg.load(self.owner)
        cg.load_attr(self.name)


# -- methods whose answer is known now -------------------------------------------------------------------------------


def _size(tx: Tracer, self: TensorVariable, dim: VariableTracker | None = None) -> VariableTracker:
    sizes = self.size(tx)
    return sizes if dim is None or dim.constant() is None else sizes.get_item(tx, dim)


def _stride(tx: Tracer, self: TensorVariable, dim: VariableTracker | None = None) -> VariableTracker:
    strides = TupleVariable(self.strides(tx))
    return strides if dim is None or dim.constant() is None else strides.get_item(tx, dim)


def _dim(tx: Tracer, self: TensorVariable) -> VariableTracker:
    return ConstantVariable(self.fake.dim())


def _numel(tx: Tracer, self: TensorVariable) -> VariableTracker:
    return self.size(tx).call_method(tx, "numel", [], {})


def _type(tx: Tracer, self: TensorVariable, *args: VariableTracker, **kwargs: VariableTracker) -> Any:
    return None if args or kwargs else ConstantVariable(self.fake.type())


def _answer(name: str) -> Callable[..., VariableTracker]:
    def method(tx: Tracer, self: TensorVariable, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
        question = getattr(self.fake, name)
        constants = [arg.constant() for arg in args]
        return ConstantVariable(
            tx.output.run_fake(question, constants, {key: arg.constant() for key, arg in kwargs.items()}, name)
        )

    return method


def _setitem(tx: Tracer, self: TensorVariable, key: VariableTracker, value: VariableTracker) -> VariableTracker:
    self.set_item(tx, key, value)
    return ConstantVariable(None)


_OWN_METHODS: dict[str, Callable[..., Any]] = {
    "size": _size,
    "stride": _stride,
    "dim": _dim,
    "ndimension": _dim,
    "numel": _numel,
    "nelement": _numel,
    "type": _type,
    "__len__": lambda tx, self: self.length(tx),
    "__setitem__": _setitem,
    "__getitem__": lambda tx, self, key: self.get_item(tx, key),
    "__iter__": lambda tx, self: self.iterate(tx),
    "__hash__": lambda tx, self: unsupported("unhashable-in-trace", value="the hash of a tensor"),
}
for _name in (
    "is_contiguous is_floating_point is_complex is_signed element_size get_device is_inference is_neg is_conj "
    "has_names is_same_size_ is_coalesced"
).split():
    if hasattr(torch.Tensor, _name):
        _OWN_METHODS[_name] = _answer(_name)
