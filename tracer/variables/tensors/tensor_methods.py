"""Methods of tensors that are not simply one operation of the graph: queries of metadata, which are answered while tracing,
methods that hand data to Python, and methods that cannot be traced. Any other method goes into the graph under its name."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from tracer import config
from tracer.graph.operations.drawn_fills import FILLING, filled
from tracer.graph.operations.tensor_hooks import add_hook
from tracer.graph.storage_offsets import offset_in_storage
from tracer.graph_breaks import unsupported
from tracer.protocol.models import model_of
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import ListVariable, SizeVariable, TupleVariable
from tracer.variables.containers.ranges import as_int
from tracer.variables.slots import SLOTS
from tracer.variables.tensors.backward import backward, retain_gradient
from tracer.variables.tensors.tensor_copies import deep_copy
from tracer.variables.values.constant import FALSE, NONE, TRUE, ConstantVariable, fold
from tracer.variables.values.symbolic import SymNodeVariable, apply, is_number

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.variables.tensors.tensor import TensorVariable

Method = Callable[..., VariableTracker | None]  # its result is None to record an operation of the graph after all
_METHODS: dict[str, Method] = {}


def tensor_method(name: str) -> Method | None:
    return _METHODS.get(name)


def _methods(names: str) -> Callable[[Method], Method]:
    def register(method: Method) -> Method:
        for name in names.split():
            _METHODS[name] = method
        return method

    return register


def _each(names: str, make: Callable[[str], Method]) -> None:
    for name in names.split():
        if hasattr(torch.Tensor, name):
            _METHODS[name] = make(name)


# -- sizes ---------------------------------------------------------------------------------------------------------------


@_methods("size")
def _size(tx: Tracer, self: TensorVariable, dim: VariableTracker = NONE) -> VariableTracker:
    sizes = self.size(tx)
    return sizes if dim.is_none() else _at(tx, self, sizes, dim)


@_methods("stride")
def _stride(tx: Tracer, self: TensorVariable, dim: VariableTracker = NONE) -> VariableTracker:
    strides = TupleVariable(self.strides(tx))
    return strides if dim.is_none() else _at(tx, self, strides, dim)


def _at(tx: Tracer, self: TensorVariable, numbers: TupleVariable, dim: VariableTracker) -> VariableTracker:
    index, rank = as_int(tx, dim), self.fake.dim()
    if index is None or dim.python_type() is bool or not -rank <= index < rank:
        unsupported("call-arguments", error=f"dim {dim.describe()} of a tensor with {rank} dims")
    return numbers.item(tx, index)


@_methods("dim ndimension")
def _dim(tx: Tracer, self: TensorVariable) -> VariableTracker:
    return ConstantVariable(self.fake.dim())


@_methods("numel nelement")
def _numel(tx: Tracer, self: TensorVariable) -> VariableTracker:
    return self.size(tx).call_method(tx, "numel", [], {})


@_methods("storage_offset")
def _storage_offset(tx: Tracer, self: TensorVariable) -> VariableTracker:
    offset: Any = offset_in_storage(tx.output, self.fake)
    if offset is None and tx.output.traces_wrapper:  # the graph keeps only the result
        offset = self.fake.storage_offset()
    if isinstance(offset, torch.SymInt):
        offset = None
    if offset is not None:
        return ConstantVariable(offset)
    unsupported("unsupported-method", value=self.describe(), name="storage_offset")


@_methods("as_subclass")
def _as_subclass(tx: Tracer, self: TensorVariable, cls: VariableTracker) -> VariableTracker:
    return tx.as_subclass(self, cls)


# -- queries -------------------------------------------------------------------------------------------------------------


def _answer(name: str) -> Method:
    def method(tx: Tracer, self: TensorVariable, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
        if name == "dim_order":
            self.asks_layout(tx)
        question = getattr(self.fake, name)
        constants = [arg.constant() for arg in args]
        return tx.literal(tx.output.run_fake(question, constants, {key: arg.constant() for key, arg in kwargs.items()}, name))

    return method


_each("is_contiguous is_floating_point is_complex is_signed element_size get_device is_neg is_conj has_names dim_order", _answer)


@_methods("is_inference")
def _is_inference(tx: Tracer, self: TensorVariable) -> VariableTracker:
    return ConstantVariable(self.fake.is_inference() if self.source is None else self.real(tx).is_inference())


@_methods("is_same_size")
def _is_same_size(tx: Tracer, self: TensorVariable, other: VariableTracker) -> VariableTracker:
    return tx.compare("==", self.size(tx), other.get_attr(tx, "shape"))


@_methods("equal")
def _equal(tx: Tracer, self: TensorVariable, other: VariableTracker) -> VariableTracker | None:
    """Where the sizes differ, or both are one tensor without a NaN; only data decide the rest."""
    theirs = getattr(other, "fake", None)
    if not isinstance(theirs, torch.Tensor) or (self.fake.dtype, self.fake.device) != (theirs.dtype, theirs.device):
        return None
    if not tx.binary_truth("==", self.size(tx), other.get_attr(tx, "shape")):
        return FALSE
    return TRUE if other is self and not (self.fake.is_floating_point() or self.fake.is_complex()) else None


@_methods("type")
def _type(tx: Tracer, self: TensorVariable, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker | None:
    if not args and not kwargs:
        return ConstantVariable(self.fake.type())
    kind = getattr(args[0], "value", None) if args else None
    dtype = getattr(kind, "dtype", None)
    of_cpu = self.fake.device.type == "cpu" and not getattr(kind, "is_cuda", True)
    if isinstance(kind, type) and isinstance(dtype, torch.dtype) and of_cpu:
        return self.call_method(tx, "to", [ConstantVariable(dtype)], kwargs)  # torch.HalfTensor and the like
    return None


@_methods("new")
def _new(tx: Tracer, self: TensorVariable, *sizes: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    """The legacy form of `new_empty`, and of `new_tensor` for a list or tuple."""
    if len(sizes) == 1 and not kwargs and sizes[0].python_type() in (list, tuple):
        return self.call_method(tx, "new_tensor", list(sizes), {})
    of_ints = all(is_number(size) and size.python_type() is int for size in sizes)
    if kwargs or not (of_ints or (len(sizes) == 1 and isinstance(sizes[0], SizeVariable))):
        unsupported("unsupported-method", value=self.describe(), name="new")
    return self.call_method(tx, "new_empty", list(sizes) if sizes else [ConstantVariable(0)], {})


# -- Python's protocols --------------------------------------------------------------------------------------------------


for _name in ("__len__", "__bool__", "__getitem__", "__setitem__", "__contains__", "__iter__"):
    _METHODS[_name] = SLOTS[_name].call
_METHODS["__nonzero__"] = SLOTS["__bool__"].call


@_methods("__hash__")
def _hash(tx: Tracer, self: TensorVariable) -> VariableTracker:
    unsupported("unhashable-in-trace", value="the hash of a tensor")


# -- NumPy ---------------------------------------------------------------------------------------------------------------


@_methods("numpy")
def _numpy(tx: Tracer, self: TensorVariable, *, force: VariableTracker = FALSE) -> VariableTracker:
    fake: Any = self.fake
    if fake.device.type != "cpu" or fake.layout is not torch.strided or fake.is_conj() or fake.is_neg():
        unsupported("data-dependent-method", value=self.describe(), name="numpy")
    if fake.requires_grad:
        if not force.truth(tx):
            unsupported("data-dependent-method", value=f"{self.describe()}, which requires a gradient,", name="numpy")
        self = cast("TensorVariable", self.call_method(tx, "detach", [], {}))
    return tx.array_of(self)


# -- data ----------------------------------------------------------------------------------------------------------------


@_methods("item")
def _item(tx: Tracer, self: TensorVariable) -> VariableTracker | None:
    known = self.decided_item(tx)
    if known is not None:
        return ConstantVariable(known.item())
    if config.capture_scalar_outputs:
        return None
    if tx.globals.get("__name__", "").startswith(_OPTIMIZERS):
        with capturing_numbers(tx):
            return self.call_method(tx, "item", [], {})
    unsupported("tensor-item", value=self.describe())


_OPTIMIZERS = "torch.optim."  # they compute with counters and norms that they read off tensors, and seldom decide on them


@contextlib.contextmanager
def capturing_numbers(tx: Tracer) -> Iterator[None]:
    """Within, numbers that are read off tensors are numbers of the graph, whatever the configuration is."""
    shape_env: Any = tx.output.world.fake_mode.shape_env
    before = shape_env.allow_scalar_outputs
    shape_env.allow_scalar_outputs = True
    try:
        with config.patch(capture_scalar_outputs=True):
            yield
    finally:
        shape_env.allow_scalar_outputs = before


@_methods("narrow")
def _narrow(
    tx: Tracer, self: TensorVariable, dim: VariableTracker, start: VariableTracker, length: VariableTracker
) -> VariableTracker | None:
    """If `start` is a tensor, it is converted with item(), as torch does internally."""
    if not _is_whole_number(start):
        return None
    return self.call_method(tx, "narrow", [dim, start.call_method(tx, "item", [], {}), length], {})


@_methods("select")
def _select(tx: Tracer, self: TensorVariable, dim: VariableTracker, index: VariableTracker) -> VariableTracker | None:
    """As `narrow`, of which the index is an argument."""
    if not _is_whole_number(index):
        return None
    return self.call_method(tx, "select", [dim, index.call_method(tx, "item", [], {})], {})


def _is_whole_number(value: VariableTracker) -> bool:
    """Whether this is a tensor of no dims that has an integer or a bool."""
    fake = getattr(value, "fake", None)
    return fake is not None and not fake.dim() and not fake.dtype.is_floating_point


@_methods("tolist")
def _tolist(tx: Tracer, self: TensorVariable) -> VariableTracker:
    known = self.decided(tx)
    if known is not None:
        return tx.literal(known.tolist())
    if not config.capture_scalar_outputs:
        unsupported("data-dependent-method", value=self.describe(), name="tolist")
    if self.fake.dim() == 0:
        return self.call_method(tx, "item", [], {})
    return ListVariable([row.call_method(tx, "tolist", [], {}) for row in self.unpack(tx)])


_NUMBERS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "__int__": (int, torch.sym_int),
    "__float__": (float, torch.sym_float),
}


def _number(name: str) -> Method:
    convert, symbolically = _NUMBERS[name]

    def method(tx: Tracer, self: TensorVariable) -> VariableTracker:
        known = self.decided_item(tx)
        if known is not None:
            return fold(tx, convert, known)
        if not config.capture_scalar_outputs:
            unsupported("tensor-item", value=self.describe())
        item = self.call_method(tx, "item", [], {})
        if item.python_type() is convert:
            return item
        if not is_number(item) or item.is_constant():
            unsupported("tensor-item", value=self.describe())
        return apply(tx, symbolically, item)

    return method


_each("__int__ __float__", _number)


@_methods("__index__")
def _position(tx: Tracer, self: TensorVariable) -> VariableTracker:
    known = self.decided(tx)
    if known is not None:
        return fold(tx, operator.index, known)
    unsupported("tensor-item", value=self.describe())


@_methods("__complex__")
def _other_number(tx: Tracer, self: TensorVariable) -> VariableTracker:
    unsupported("tensor-item", value=self.describe())


def _breaking(reason: str) -> Callable[[str], Method]:
    """Methods that break the graph, for a reason."""

    def make(name: str) -> Method:
        def method(tx: Tracer, self: TensorVariable, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
            unsupported(reason, value=self.describe(), name=name)

        return method

    return make


_each(
    "data_ptr const_data_ptr __array__ __array_wrap__ untyped_storage storage _storage _typed_storage storage_type "
    "__reduce_ex__ __reduce__ __copy__ __getstate__ __setstate__ __sizeof__ __repr__ __str__ __format__ "
    "__dlpack__ __dlpack_device__ apply_ map_ map2_ is_set_to is_nonzero __dir__",
    _breaking("data-dependent-method"),
)


_methods("__deepcopy__")(deep_copy)


_each(
    "share_memory_ is_shared pin_memory is_pinned resize resize_as set_ module_load "
    "_is_view _use_count _view_func _view_func_unsafe _make_subclass _make_wrapper_subclass rename rename_ refine_names "
    "align_to align_as is_coalesced to_sparse to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc to_sparse_coo "
    "to_mkldnn sparse_resize_ sparse_resize_and_clear_ reinforce",
    _breaking("unsupported-method"),
)


@_methods("record_stream")
def _record_stream(tx: Tracer, self: TensorVariable, s: VariableTracker) -> VariableTracker:
    return tx.call_unbound_model(torch.Tensor.record_stream, [self, s], {})


@_methods("backward")
def _backward(
    tx: Tracer,
    self: TensorVariable,
    gradient: VariableTracker = NONE,
    retain_graph: VariableTracker = NONE,
    create_graph: VariableTracker = NONE,
    inputs: VariableTracker = NONE,
) -> VariableTracker:
    return backward(tx, self, gradient, retain_graph, create_graph, inputs)


def _varies(tx: Tracer, data: VariableTracker) -> bool:
    """Whether a number, or one in nested lists, varies."""
    if isinstance(data, (ListVariable, TupleVariable)):
        return any(_varies(tx, item) for item in data.items(tx))
    return isinstance(data, SymNodeVariable)


@_methods("new_tensor")
def _new_tensor(tx: Tracer, self: TensorVariable, data: VariableTracker, **kwargs: VariableTracker) -> VariableTracker | None:
    """Of an array, and of numbers that vary, it is `torch.tensor` with this tensor's dtype and device."""
    if not issubclass(data.python_type(), np.ndarray) and not _varies(tx, data):
        return None
    for name in ("dtype", "device"):
        if name not in kwargs or kwargs[name].is_none():
            kwargs[name] = self.get_attr(tx, name)
    model = model_of(torch.tensor)
    assert model is not None
    return model(tx, data, **kwargs)


def _sets_a_hook(name: str) -> Method:
    def method(tx: Tracer, self: TensorVariable, hook: VariableTracker) -> VariableTracker:
        model = model_of(add_hook)
        assert model is not None
        return model(tx, self, hook, name)

    return method


_each("register_hook register_post_accumulate_grad_hook", _sets_a_hook)


# -- draws from a generator of the program's own, given by name ------------------------------------------------------------


def drawing_method(name: str, kwargs: dict[str, VariableTracker]) -> Method | None:
    """The model of a method that draws, if it is given a generator."""
    if "generator" not in kwargs or kwargs["generator"].is_none():
        return None
    return _fills(name) if name in FILLING else _as_function(name) if name in ("multinomial", "bernoulli") else None


def _fills(name: str) -> Method:
    def method(
        tx: Tracer, self: TensorVariable, *args: VariableTracker, generator: VariableTracker, **kwargs: VariableTracker
    ) -> VariableTracker:
        model: Any = model_of(filled)
        return cast("VariableTracker", model(tx, self, name, args, generator, kwargs))

    return method


def _as_function(name: str) -> Method:
    def method(tx: Tracer, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
        model: Any = model_of(getattr(torch, name))
        return cast("VariableTracker", model(tx, *args, **kwargs))

    return method


_each("cov corrcoef masked_select", _as_function)


@_methods("retain_grad")
def _retain_grad(tx: Tracer, self: TensorVariable) -> VariableTracker:
    if self.get_attr(tx, "is_leaf").constant() and self.fake.requires_grad:
        return NONE
    if self.source is not None or not self.fake.requires_grad or self.cls is not torch.Tensor:
        unsupported("autograd-in-trace", name="retain_grad")
    if self.retained is None:
        retain_gradient(tx, self)
    return NONE


# -- metadata of inputs --------------------------------------------------------------------------------------------------


def _changes_metadata(name: str) -> Method:
    def method(tx: Tracer, self: TensorVariable, *args: VariableTracker, **kwargs: VariableTracker) -> None:
        if self.source is not None:
            unsupported("mutation-of-input", value=f"{self.describe()}, by {name}")

    return method


_each("t_ squeeze_ unsqueeze_ transpose_ swapaxes_ swapdims_ as_strided_ detach_", _changes_metadata)


def _resizes(name: str) -> Method:
    def method(tx: Tracer, self: TensorVariable, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
        """A new tensor without items is from then on one of that size. Other memory may be moved, away from its views."""
        empty = not self.fake._is_view() and any(type(size) is int and size == 0 for size in self.fake.shape)
        if not empty or kwargs or not args or self.source is not None or self.cls is not torch.Tensor or self.fake.requires_grad:
            unsupported("unsupported-method", value=self.describe(), name=name)
        sizes = [args[0].get_attr(tx, "shape")] if name == "resize_as_" else list(args)
        made = cast("TensorVariable", self.call_method(tx, "new_empty", sizes, {}))
        tx.effects.mutate(self)
        tx.output.track(made.fake, self)
        self.node, self.fake = made.node, made.fake
        return self

    return method


_each("resize_ resize_as_", _resizes)


@_methods("requires_grad_")
def _requires_grad(
    tx: Tracer, self: TensorVariable, requires_grad: VariableTracker = ConstantVariable(True)
) -> VariableTracker | None:
    wanted = requires_grad.truth(tx)
    return self if self.fake.requires_grad is wanted else self.require_gradient(tx, wanted)
