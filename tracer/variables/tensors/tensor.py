"""Tensors. Operations on them become nodes of the graph; queries of their metadata are answered while tracing."""

from __future__ import annotations

import contextlib
import inspect
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tracer import _C, config, user_marks
from tracer.errors import TraceAnew
from tracer.graph.fakes.decided_values import decided_value
from tracer.graph.fakes.exchanged_data import is_exchanged_leaf
from tracer.graph.fakes.fake_tensors import is_leaf, is_symbolic
from tracer.graph.fakes.wrapper_fakes import WrapperFake
from tracer.graph_breaks import unsupported
from tracer.guards.identity import BoolMatch
from tracer.guards.tensors import LeafMatch
from tracer.guards.unchanged import find
from tracer.operators.facts import writes
from tracer.protocol.lookups import MISSING, lookup
from tracer.protocol.variable import VariableTracker, invoke
from tracer.sources.attributes import GenericAttrSource
from tracer.sources.reading import is_a
from tracer.sources.tensors import GradSource
from tracer.variables.containers.lists import SizeVariable, TupleVariable
from tracer.variables.containers.sequence_base import SequenceVariable
from tracer.variables.marked_calls import heed_marks
from tracer.variables.slots import BINARY, COMPARE, INPLACE, UNARY, UNARY_DUNDER
from tracer.variables.tensors.masked_elements import MaskedElements, masked_elements
from tracer.variables.tensors.subscripts import WHOLE, select_symbolic, subscript
from tracer.variables.tensors.tensor_data import exchange_data, refuse_exchanged
from tracer.variables.tensors.tensor_methods import drawing_method, tensor_method
from tracer.variables.values.constant import ConstantVariable, NamedMethodVariable, boolean
from tracer.variables.values.symbolic import is_number

if TYPE_CHECKING:
    from torch import fx

    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.sources.base import Source
    from tracer.variables.tensors.backward import Retained
    from tracer.variables.tensors.created_leaves import HeldLeaf

METADATA = frozenset(
    "dtype device layout ndim is_cuda is_cpu is_sparse is_quantized is_mkldnn is_meta is_mps is_xpu is_nested itemsize "
    "requires_grad is_sparse_csr is_mtia is_xla is_ipu is_vulkan is_maia".split()
)
VIEW_ATTRIBUTES = frozenset("T H mT mH real imag data".split())
_MISSING = object()


class TensorVariable(VariableTracker):
    """A tensor: `node` computes it in the graph, `fake` knows its metadata."""

    is_made_parameter = False  # whether it is a leaf that the output code makes (`created_leaves`)
    held: HeldLeaf | None = None  # the leaf that the output code makes for it, if that is not a parameter
    retained: Retained | None = None  # set if the program made it retain its gradient, though it is no leaf
    hooked_at: int | None = None  # the step that set a hook on it

    def __init__(self, node: fx.Node, fake: torch.Tensor, source: Source | None = None, cls: type = torch.Tensor) -> None:
        self.node = node
        self.fake = fake
        self.source = source
        self.cls = cls

    def describe(self) -> str:
        return f"TensorVariable({self.node.name})"

    def graph_arg(self) -> Any:
        return self.node

    def hash_key(self, tx: Tracer) -> Any:
        tx.output.journal.refuse("a tensor is a key")
        return self

    def reconstruct(self, cg: ValueCodegen) -> None:
        if self.held is not None:
            self.held.reconstruct(cg)
            return
        if self.retained is None:
            cg.load_graph_output(self)
            return
        if not self.retained.leaves:
            unsupported("autograd-in-trace", break_step=self.retained.step, name="retain_grad")
        cg.call_object(_retaining, lambda: cg.load_graph_output(self))

    # -- attributes ----------------------------------------------------------------------------------------------

    def rely_on(self, *names: str) -> None:
        """Guards that the attributes of these names are torch's own; breaks the graph if the program has patched one."""
        of_torch = torch.nn.Parameter if issubclass(self.cls, torch.nn.Parameter) else torch.Tensor
        for name in names:
            static = lookup(of_torch, name)[1]
            if name in _OF_TORCH and not any(static is each for each in _OF_TORCH[name]):
                unsupported("unsupported-attribute", value=f"{self.describe()}, of a class that was patched", name=name)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        self.rely_on("__getattribute__", name)
        pending = tx.effects.attribute(self, name)
        if pending is not None and name != "data":
            return pending
        if tx.trace.overrides.active and _is_attribute(name):
            answer = tx.overridden(getattr, [self, ConstantVariable(name)], {})
            if answer is not None:
                return answer
        if name == "shape":
            return self.size(tx)
        if name in METADATA:
            return ConstantVariable(getattr(self.fake, name))
        if name in VIEW_ATTRIBUTES:
            return tx.output.call_function(getattr, (self.node, name), {})
        special = _ATTRIBUTES.get(name)
        if special is not None:
            return special(tx, self)
        static = find(self.cls, name)[1]
        if static is MISSING:
            return self._instance_attr(tx, name)
        if callable(static) or is_a(static, (classmethod, staticmethod)):
            return TensorMethodVariable(self, name)
        unsupported("unsupported-attribute", value=self.describe(), name=name)

    def _instance_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if self.source is None or tx.effects.is_deleted(self, name):
            tx.raise_error(AttributeError, f"{self.cls.__name__!r} object has no attribute {name!r}")
        return tx.instance_attr(self, self.real(tx), name)

    @property
    def known(self) -> torch.Tensor | None:
        """The data of a small tensor that was made from constants."""
        return getattr(self.fake, "constant", None)

    def decided(self, tx: Tracer) -> torch.Tensor | None:
        """The data of a tensor that depends on constants alone."""
        if self.known is not None:
            return self.known
        value = decided_value(self.node)
        if value is not None:
            tx.output.journal.refuse("it asks for the value of a tensor")
        return value

    def decided_item(self, tx: Tracer) -> torch.Tensor | None:
        """The data of such a tensor, if it has one element."""
        known = self.decided(tx)
        return known if known is not None and known.numel() == 1 else None

    def real(self, tx: Tracer) -> torch.Tensor:
        """The real tensor of this call, for an input."""
        assert self.source is not None
        return tx.output.inputs[self.source].real

    def set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        self.rely_on("__setattr__", name)
        if tx.trace.overrides.active and inspect.getattr_static(torch.Tensor, name, _MISSING) is not _MISSING:
            if tx.overridden(setattr, [self, ConstantVariable(name), value], {}) is not None:
                return
        if name == "requires_grad" and value.is_constant():
            self.call_method(tx, "requires_grad_", [value], {})
            return
        known = self.source is not None or is_exchanged_leaf(self.fake) or self.retained is not None
        if name == "grad" and known and self._may_be_gradient(value):
            tx.effects.store_attribute(self, name, value)
            return
        if name == "data" and isinstance(value, TensorVariable):
            if value is not self:
                self.exchange(tx, value)
            return
        if inspect.getattr_static(self.cls, name, _MISSING) is not _MISSING or name.startswith("__"):
            unsupported("unsupported-attribute-store", value=self.describe(), name=name)
        tx.effects.store_attribute(self, name, value)

    def exchange(self, tx: Tracer, other: TensorVariable) -> None:
        """self.data = other"""
        exchange_data(tx, self, other)

    def require_gradient(self, tx: Tracer, wanted: bool) -> VariableTracker | None:
        """self.requires_grad_(wanted), where that changes something; None to record it as an operation of the graph."""
        if self.source is not None or self.cls is torch.nn.Parameter:
            unsupported("mutation-of-input", value=f"{self.describe()}, by requires_grad_")
        return None

    def _may_be_gradient(self, value: VariableTracker) -> bool:
        if isinstance(value, TensorVariable):
            mine, other = self.fake, value.fake
            if (type(mine) is WrapperFake) is not (type(other) is WrapperFake):
                return False
            return (mine.dtype, mine.device, mine.layout, mine.shape) == (other.dtype, other.device, other.layout, other.shape)
        return value.is_none()

    def del_attr(self, tx: Tracer, name: str) -> None:
        if inspect.getattr_static(self.cls, name, _MISSING) is not _MISSING or tx.effects.attribute(self, name) is None:
            unsupported("unsupported-attribute-store", value=self.describe(), name=name)
        tx.delete_attribute(self, name)

    # -- sizes ---------------------------------------------------------------------------------------------------

    def size(self, tx: Tracer) -> SizeVariable:
        return SizeVariable([self.dimension(tx, dim) for dim in range(self.fake.dim())])

    def dimension(self, tx: Tracer, dim: int) -> VariableTracker:
        size = self.fake.shape[dim]
        return tx.output.measure(self.node, "size", dim, size) if is_symbolic(size) else ConstantVariable(size)

    def strides(self, tx: Tracer) -> list[VariableTracker]:
        self.asks_layout(tx)
        return [
            tx.output.measure(self.node, "stride", dim, stride) if is_symbolic(stride) else ConstantVariable(stride)
            for dim, stride in enumerate(self.fake.stride())
        ]

    def asks_layout(self, tx: Tracer) -> None:
        """Called before the layout of a tensor in memory is used. If layouts were guessed, traces anew without guessing."""
        mode = tx.output.world.fake_mode
        if self.source is None and mode.layout_guessed and not mode.asks_layout:
            raise TraceAnew(asks_layout=True)

    def length(self, tx: Tracer) -> VariableTracker:
        self.rely_on("__len__")
        if tx.trace.overrides.active:
            answer = tx.overridden_method(self, "__len__", [], {})
            if answer is not None:
                return answer
        if self.fake.dim() == 0:
            tx.raise_error(TypeError, "len() of a 0-d tensor")
        return self.dimension(tx, 0)

    # -- operators -----------------------------------------------------------------------------------------------

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        self.rely_on(tx.dunder(op, "r" if reflected else ""))
        return self._operator(tx, BINARY[op], other, reflected=reflected)

    def inplace(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        self.rely_on(tx.dunder(op, "i"))
        return self._operator(tx, INPLACE[op], other, changes=True)

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        self.rely_on(tx.dunder(op))
        return self._operator(tx, COMPARE[op], other)

    def _operator(
        self,
        tx: Tracer,
        function: Callable[..., Any],
        other: VariableTracker,
        *,
        reflected: bool = False,
        changes: bool = False,
    ) -> VariableTracker | None:
        if tx.trace.overrides.concerns(other):
            answer = tx.overridden(function, [other, self] if reflected else [self, other], {})
            if answer is not None:
                return answer
        if changes and isinstance(other, MaskedElements):
            other.graph_arg()  # which it is not
        other = beside(tx, self, other, function.__name__)
        if not is_operand(other):
            return None
        operands = (other.graph_arg(), self.node) if reflected else (self.node, other.graph_arg())
        with writing(tx, self) if changes else contextlib.nullcontext():
            return tx.output.call_function(function, operands, {})

    def unary(self, tx: Tracer, op: str) -> VariableTracker | None:
        self.rely_on(UNARY_DUNDER[op])
        operator_: Any = UNARY[op]
        if tx.trace.overrides.active:
            answer = tx.overridden(operator_, [self], {})
            if answer is not None:
                return answer
        return tx.output.call_function(operator_, (self.node,), {})

    def truth(self, tx: Tracer) -> bool:
        known = self.decided_item(tx)
        if known is not None:
            return bool(known)
        unsupported("data-dependent-branch", value=self.describe())

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        self.rely_on("__getitem__")
        if tx.trace.overrides.active:
            answer = tx.overridden(operator.getitem, [self, key], {})
            if answer is not None:
                return answer
        elements = masked_elements(tx, self, key)
        if elements is not None:
            return elements
        tensor, rest = select_symbolic(tx, self, key)
        if rest is None:
            return tensor
        return tx.output.call_function(operator.getitem, (tensor.node, subscript(tx, rest)), {})

    def set_item(self, tx: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        self.rely_on("__setitem__")
        if tx.trace.overrides.active and tx.overridden(operator.setitem, [self, key, value], {}) is not None:
            return
        if value.python_type() is np.bool_:  # torch raises
            unsupported("unsupported-subscript", value=f"{self.describe()}, set to {value.describe()},", key=key.describe())
        if isinstance(value, MaskedElements):
            key, value = WHOLE, value.put_into(tx, self, key)
        tensor, rest = select_symbolic(tx, self, key)
        with writing(tx, self, tensor):
            index = subscript(tx, WHOLE if rest is None else rest)
            tx.output.call_function(operator.setitem, (tensor.node, index, tx.as_graph_arg(value)), {})

    def iterate(self, tx: Tracer) -> VariableTracker:
        self.rely_on("__iter__")
        if tx.trace.overrides.active:
            answer = tx.overridden_method(self, "__iter__", [], {})
            if answer is not None:
                return answer
        if self.fake.dim() == 0:
            tx.raise_error(TypeError, "iteration over a 0-d tensor")
        rows = TupleVariable(tx.output.call_method("unbind", (self.node, 0), {}).unpack(tx)).iterate(tx)
        tx.trace.row_iterators[rows] = tx, tx.step
        return rows

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        if not config.capture_scalar_outputs or not (isinstance(item, TensorVariable) or is_number(item)):
            unsupported("data-dependent-branch", value=self.describe())
        return tx.compare("==", item, self).call_method(tx, "any", [], {}).call_method(tx, "item", [], {})

    # -- methods -------------------------------------------------------------------------------------------------

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        self.rely_on("__getattribute__", name)
        if user_marks.graph_policy:
            heed_marks(tx, inspect.getattr_static(self.cls, name, None))
        if tx.trace.overrides.active:
            answer = tx.overridden_method(self, name, args, kwargs)
            if answer is not None:
                return answer
        own = drawing_method(name, kwargs) or tensor_method(name)
        if own is not None:
            result = invoke(own, (tx, self, *args), kwargs)
            if result is not None:
                return result
        if inspect.getattr_static(self.cls, name, _MISSING) is _MISSING or tx.effects.attribute(self, name) is not None:
            return self.get_attr(tx, name).call(tx, args, kwargs)
        graph_args = [tx.as_graph_arg(arg) for arg in args]
        graph_kwargs = {key: tx.as_graph_arg(arg) for key, arg in kwargs.items()}
        if writes(name, kwargs):
            with writing(tx, self, *kwargs.values()):
                return tx.output.call_method(name, (self.node, *graph_args), graph_kwargs)
        result = tx.output.call_method(name, (self.node, *graph_args), graph_kwargs)
        if result is self:  # x.to(dtype) of a tensor that has the dtype already
            next(reversed(tx.output.graph.nodes)).meta["pure"] = True
        return result


_OF_TORCH: dict[str, list[Any]] = {}  # the attributes of torch's own classes, by name
for _cls in torch.nn.Parameter.__mro__:
    for _name, _static in vars(_cls).items():
        _OF_TORCH.setdefault(_name, []).append(_static)


def _is_attribute(name: str) -> bool:
    """Whether `torch.Tensor.name` is an attribute of tensors, not a method."""
    static = inspect.getattr_static(torch.Tensor, name, _MISSING)
    return static is not _MISSING and not callable(static)


@contextlib.contextmanager
def writing(tx: Tracer, *tensors: VariableTracker) -> Iterator[None]:
    """Encloses the recording of an operation that writes to tensors. Breaks the graph if it makes an input require a gradient
    or changes the input's metadata, as backends cannot be told so."""
    values = [item for value in tensors for item in (value.items(tx) if isinstance(value, SequenceVariable) else [value])]
    written = [tensor for tensor in values if isinstance(tensor, TensorVariable)]
    before = [_metadata(tensor.fake) for tensor in written]
    for tensor in written:
        refuse_exchanged(tensor)
    versions = [(tensor, tensor.fake._version) for tensor in tx.trace.computed_inputs]
    yield
    for tensor, version in versions:
        if tensor.fake._version != version:
            _refuse_retained_gradient(tx, tensor)
    after = [_metadata(tensor.fake) for tensor in written]
    if before == after:
        return
    for tensor in tx.trace.input_tensors:
        real = tensor.real(tx)
        if tensor.fake.requires_grad != real.requires_grad:
            unsupported("mutation-of-input", value=tensor.describe())
    if any(tensor.source is not None and old[1:] != new[1:] for tensor, old, new in zip(written, before, after)):
        unsupported("mutation-of-input", value="the metadata of a tensor")


def _refuse_retained_gradient(tx: Tracer, tensor: TensorVariable) -> None:
    """Breaks the graph for a write to an input that retains its gradient, and guards that it does not. The gradient is that of
    the tensor after all writes, but a compiled graph has another tensor in its place."""
    if tensor.real(tx).retains_grad:
        unsupported("mutation-of-input", value="a tensor that retains its gradient")
    if tensor.source is not None:
        tx.guard(BoolMatch(GenericAttrSource(tensor.source, "retains_grad"), False))


def _metadata(fake: torch.Tensor) -> tuple[Any, ...]:
    return fake.requires_grad, *fake.shape, *fake.stride(), is_leaf(fake)


def beside(tx: Tracer, tensor: TensorVariable, other: VariableTracker, op: str) -> VariableTracker:
    """The other operand of a tensor's operator, which treats NumPy scalars as Python numbers."""
    number = getattr(other, "beside", None)
    return other if number is None else number(tx, tensor, op)


def is_operand(value: VariableTracker) -> bool:
    """Whether a tensor operator accepts `value`."""
    if value.is_constant():
        return isinstance(value.constant(), (int, float, complex, np.number, np.bool_))
    plain = getattr(value, "storage", None)  # for an instance of a subclass of a number class
    if isinstance(plain, ConstantVariable):
        return is_operand(plain)
    return isinstance(value, TensorVariable) or is_symbolic(getattr(value, "example", None))


def _retaining(tensor: torch.Tensor) -> torch.Tensor:
    tensor.retain_grad()
    return tensor


_C.never_trace(_retaining.__code__)


class TensorMethodVariable(NamedMethodVariable):
    """A bound method of a tensor."""

    def python_type(self) -> type:
        return type(torch.Tensor.sum)


# -- attributes that are more than metadata ------------------------------------------------------------------------------


def _grad(tx: Tracer, self: TensorVariable) -> VariableTracker:
    if self.source is not None:
        return tx.wrap(tx.output.inputs[self.source].real.grad, GradSource(self.source))
    if self.fake.is_leaf or is_exchanged_leaf(self.fake) or self.retained is not None:  # backward() would have stored a gradient
        return ConstantVariable(None)
    unsupported("unsupported-attribute", value=self.describe(), name="grad")


def _grad_fn(tx: Tracer, self: TensorVariable) -> VariableTracker:
    if not self.fake.requires_grad or _is_leaf(tx, self).constant():
        return ConstantVariable(None)
    unsupported("unsupported-attribute", value=self.describe(), name="grad_fn")


def _is_leaf(tx: Tracer, self: TensorVariable) -> VariableTracker:
    if self.source is not None and self.fake.requires_grad:
        tx.guard(LeafMatch(self.source, self.real(tx).is_leaf))
    return ConstantVariable(self.fake.is_leaf or is_exchanged_leaf(self.fake))


def _retains_grad(tx: Tracer, self: TensorVariable) -> VariableTracker:
    if self.source is not None:
        return tx.wrap(self.real(tx).retains_grad, GenericAttrSource(self.source, "retains_grad"))
    return boolean(self.retained is not None)


def _nbytes(tx: Tracer, self: TensorVariable) -> VariableTracker:
    return tx.binary("*", self.size(tx).call_method(tx, "numel", [], {}), ConstantVariable(self.fake.itemsize))


_ATTRIBUTES: dict[str, Callable[..., VariableTracker]] = {
    "__class__": lambda tx, self: tx.class_variable(self.cls),
    "grad": _grad,
    "grad_fn": _grad_fn,
    "is_leaf": _is_leaf,
    "nbytes": _nbytes,
    "retains_grad": _retains_grad,
}
