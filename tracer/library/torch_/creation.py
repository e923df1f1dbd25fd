"""Models of functions that make tensors from Python values and arrays, and of random functions that take a generator."""

from __future__ import annotations

import array
import functools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tracer.graph_breaks import unsupported
from tracer.library.numpy_ import tensor_of
from tracer.library.torch_.generators import draw_tensor
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import ListVariable, RangeVariable, SequenceVariable, SizeVariable
from tracer.variables.objects.buffers import BufferVariable
from tracer.variables.tensors.arrays import NdarrayVariable
from tracer.variables.tensors.numpy_sizes import NumpySizeVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import FALSE, NONE, ZERO
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker

_TAKE_A_GENERATOR: tuple[Any, ...] = (
    torch.rand, torch.randn, torch.randint, torch.randperm, torch.normal, torch.bernoulli, torch.multinomial, torch.poisson,
)  # fmt: skip


def _without_default_generator(function: Any) -> Any:
    """Drops `generator=None`, which has no effect, because torch's parser takes no symbolic sizes beside it."""

    def model(tx: Tracer, *args: Value, generator: Value = NONE, **kwargs: Value) -> Value:
        if not generator.is_none():
            return draw_tensor(tx, function, list(args), generator, kwargs)
        return tx.call_in_graph(function, list(args), kwargs)

    return model


for _function in _TAKE_A_GENERATOR:
    models.of_plain_tensors(_function)(_without_default_generator(_function))


@models.of_plain_tensors(torch.tensor)
def _tensor(tx: Tracer, data: Value, **kwargs: Value) -> Value:
    if isinstance(data, BufferVariable) and data.python_type() is array.array:
        data = ListVariable(data.iterate(tx).unpack(tx))
    if isinstance(data, NdarrayVariable):
        return tensor_of(tx, data, True, **kwargs)
    if isinstance(data, RangeVariable):
        data = ListVariable(data.unpack(tx))
    leaves = _leaves(tx, data)
    if any(isinstance(leaf, NumpySizeVariable) for leaf in leaves):
        data = _with_numbers(tx, data)
        leaves = _leaves(tx, data)
    if any(isinstance(leaf, TensorVariable) for leaf in leaves) and not isinstance(data, TensorVariable):
        return _tensor_of_tensors(tx, data, leaves, kwargs)
    if any(leaf.is_constant() and isinstance(leaf.constant(), np.generic) for leaf in leaves) and "dtype" not in kwargs:
        kwargs["dtype"] = tx.literal(torch.tensor(_constants(tx, data)).dtype)  # the graph has Python's numbers
    if any(isinstance(leaf, SymNodeVariable) for leaf in leaves):
        return _tensor_of_symbols(tx, data, leaves, kwargs)
    return tx.call_in_graph(torch.tensor, [data], kwargs)


def _leaves(tx: Tracer, data: Value) -> list[Value]:
    if isinstance(data, SequenceVariable):
        return [leaf for item in data.items(tx) for leaf in _leaves(tx, item)]
    return [data]


def _with_numbers(tx: Tracer, data: Value) -> Value:
    """Nested lists with the Python ints that ints of NumPy hold. Both make a tensor of int64, beside other ints and alone."""
    if isinstance(data, SequenceVariable):
        return ListVariable([_with_numbers(tx, item) for item in data.items(tx)])
    return data.number if isinstance(data, NumpySizeVariable) else data


def _constants(tx: Tracer, data: Value) -> Any:
    """Nested lists of the numbers; a number that varies counts as one of its type."""
    if isinstance(data, SequenceVariable):
        return [_constants(tx, item) for item in data.items(tx)]
    return data.python_type()(0) if isinstance(data, SymNodeVariable) else data.constant()


def _shape(tx: Tracer, data: Value) -> list[int]:
    if not isinstance(data, SequenceVariable):
        return []
    shapes = [_shape(tx, item) for item in data.items(tx)]
    if any(shape != shapes[0] for shape in shapes):
        unsupported("call-arguments", error="a ragged list")
    return [len(shapes), *(shapes[0] if shapes else [])]


def _tensor_of_symbols(tx: Tracer, data: Value, leaves: list[Value], kwargs: dict[str, Value]) -> Value:
    """torch.tensor itself would specialise each size, so the numbers are made into tensors one by one and stacked."""
    kinds = {leaf.python_type() for leaf in leaves}
    if not kinds <= {int, float, bool} or set(kwargs) - {"dtype", "device"} or kinds == {bool}:
        return tx.call_in_graph(torch.tensor, [data], kwargs)
    inferred = torch.get_default_dtype() if float in kinds else torch.int64
    wanted: torch.dtype = kwargs.get("dtype", NONE).constant() or inferred
    exact = wanted if wanted.is_floating_point else torch.float64 if float in kinds else torch.int64
    options = {"dtype": tx.literal(exact)}
    made = _stacked(tx, data, [tx.call_in_graph(torch.scalar_tensor, [leaf], options) for leaf in leaves])
    moved = {"dtype": tx.literal(wanted), **{k: v for k, v in kwargs.items() if k == "device"}}
    return made.call_method(tx, "to", [], moved)


def _tensor_of_tensors(tx: Tracer, data: Value, leaves: list[Value], kwargs: dict[str, Value]) -> Value:
    """torch.tensor reads the number in each tensor. Here they are copied and stacked: the graph need not know them."""
    known = [_inferred(leaf) for leaf in leaves]
    dtypes = [dtype for dtype in known if dtype is not None]
    if len(dtypes) < len(known) or set(kwargs) - {"dtype"} or torch.get_default_device().type != "cpu":
        unsupported("data-dependent-method", value="a list of tensors", name="torch.tensor")
    found = functools.reduce(torch.promote_types, dtypes)
    wanted: torch.dtype = kwargs.get("dtype", NONE).constant() or found
    if not wanted.is_floating_point and wanted is not found:
        unsupported("data-dependent-method", value="a list of tensors", name="torch.tensor")
    options = {"dtype": tx.literal(wanted)}
    return _stacked(tx, data, [_copied_number(tx, leaf, options) for leaf in leaves])


def _inferred(leaf: Value) -> torch.dtype | None:
    """The dtype that a number has among those of torch.tensor; None for what is no number."""
    if isinstance(leaf, TensorVariable):
        fake = leaf.fake
        plain = fake.dim() == 0 and fake.device.type == "cpu" and fake.layout is torch.strided and not fake.is_complex()
        return fake.dtype if plain else None
    kinds = {bool: torch.bool, int: torch.int64, float: torch.get_default_dtype()}
    return kinds.get(leaf.python_type()) if leaf.is_constant() or isinstance(leaf, SymNodeVariable) else None


def _copied_number(tx: Tracer, leaf: Value, options: dict[str, Value]) -> Value:
    if isinstance(leaf, TensorVariable):
        return leaf.call_method(tx, "detach", [], {}).call_method(tx, "to", [], options)
    return tx.call_in_graph(torch.scalar_tensor, [leaf], options)


def _stacked(tx: Tracer, data: Value, scalars: list[Value]) -> Value:
    """A tensor of the shape of nested lists."""
    if not isinstance(data, SequenceVariable):
        return scalars[0]
    made = tx.call_in_graph(torch.stack, [ListVariable(scalars)], {})
    shape = _shape(tx, data)
    assert math.prod(shape) == len(scalars)
    return made.call_method(tx, "reshape", [tx.literal(size) for size in shape], {}) if len(shape) > 1 else made


# -- torch.FloatTensor and the like --------------------------------------------------------------------------------------------

_CLASSES_BY_DTYPE: tuple[Any, ...] = (
    torch.FloatTensor, torch.DoubleTensor, torch.HalfTensor, torch.BFloat16Tensor, torch.ByteTensor, torch.CharTensor,
    torch.ShortTensor, torch.IntTensor, torch.LongTensor, torch.BoolTensor,
)  # fmt: skip


def _of_dtype(cls: Any) -> Any:
    """The model of a class that makes tensors of one dtype in the CPU's memory, from data or of a size."""

    def model(tx: Tracer, *args: Value) -> Value:
        if tx.trace.overrides.modes or any(isinstance(arg, TensorVariable) for arg in args):
            unsupported("unsupported-builtin", function=f"torch.{cls.__name__} of a tensor or under a mode")
        dtype, data = tx.literal(cls.dtype), args[0] if len(args) == 1 else None
        if isinstance(data, NdarrayVariable) and data.tensor.fake.dim():
            if any(type(size) is int and size == 0 for size in data.tensor.fake.shape):  # with the strides that NumPy gives it
                unsupported("unsupported-builtin", function=f"torch.{cls.__name__} of an array without items")
            return tensor_of(tx, data, False, dtype)
        if isinstance(data, (SequenceVariable, RangeVariable)) and not isinstance(data, SizeVariable):
            return _tensor(tx, data, dtype=dtype, device=tx.literal(_CPU))
        sizes: list[Value] = [data] if isinstance(data, SizeVariable) else list(args) or [ZERO]
        if not isinstance(data, SizeVariable) and any(size.python_type() is not int for size in sizes):
            unsupported("unsupported-builtin", function=f"torch.{cls.__name__}")
        return tx.call_in_graph(torch.empty, sizes, {"dtype": dtype, "device": tx.literal(_CPU)})

    return model


_CPU = torch.device("cpu")
for _class in _CLASSES_BY_DTYPE:
    models.of_plain_tensors(_class)(_of_dtype(_class))


@models.of_plain_tensors(torch.autograd.Variable)
def _variable(tx: Tracer, data: Value = NONE, requires_grad: Value = FALSE, volatile: Value | None = None, *rest: Value) -> Value:
    """An alias of the tensor, cut off from what made it; with no data, an empty tensor."""
    given = rest or volatile is not None and volatile.truth(tx)
    if given or not (data.is_none() or isinstance(data, TensorVariable)):
        unsupported("unsupported-builtin", function="torch.autograd.Variable of other data or with other options")
    if data.is_none():
        made = tx.call_in_graph(torch.empty, [ZERO], {})
    else:
        made = data.call_method(tx, "detach", [], {})
    return made.call_method(tx, "requires_grad_", [], {}) if requires_grad.truth(tx) else made


@models.of_plain_tensors(torch._shape_as_tensor)
def _shape_as_tensor(tx: Tracer, tensor: Value) -> Value:
    return _tensor(tx, ListVariable(tensor.get_attr(tx, "shape").unpack(tx)), dtype=tx.literal(torch.int64))


@models.of_plain_tensors(torch.as_tensor, torch.asarray)
def _as_tensor(tx: Tracer, data: Value, **kwargs: Value) -> Value:
    if isinstance(data, TensorVariable):
        return tx.call_in_graph(torch.as_tensor, [data], kwargs)
    if isinstance(data, NdarrayVariable):
        return tensor_of(tx, data, False, **kwargs)
    if isinstance(data, BufferVariable):  # torch.asarray takes its memory
        unsupported("unsupported-builtin", function="a function that takes memory from elsewhere")
    return _tensor(tx, data, **kwargs)


@models.of_plain_tensors(torch.frombuffer, torch.from_dlpack, torch.from_file)
def _foreign_memory(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
    unsupported("unsupported-builtin", function="a function that takes memory from elsewhere")
