"""Models of NumPy's functions that give arrays in the memory of an argument, where torch has a view of that kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from tracer.graph_breaks import unsupported
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import SequenceVariable, TupleVariable
from tracer.variables.tensors.arrays import NdarrayVariable
from tracer.variables.tensors.dtypes_of_numpy import NumpyDtypeVariable
from tracer.variables.tensors.known_arrays import LARGEST_KNOWN, SHARED_DTYPES
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.text import plain_form
from tracer.variables.values.constant import FALSE, NONE, TRUE, ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker


def _refuse(name: str, value: Value) -> NoReturn:
    unsupported("unsupported-builtin", function=f"numpy.{name} of {value.describe()}")


def _in_tensor(name: str, array: Value, subok: Value) -> NdarrayVariable:
    """An array whose dims are those of the tensor in whose memory it lies."""
    if not isinstance(array, NdarrayVariable) or array.is_scalar or array.reversed_dims or subok.constant():
        _refuse(name, array)
    return array


def _numbers(tx: Tracer, value: Value) -> list[Value]:
    return value.items(tx) if isinstance(value, SequenceVariable) else [value]


@models.of_plain_tensors(sliding_window_view)
def _sliding_window_view(
    tx: Tracer, x: Value, window_shape: Value, axis: Value = NONE, *, subok: Value = FALSE, writeable: Value = FALSE
) -> Value:
    array = _in_tensor("sliding_window_view", x, subok)
    tensor: Value = array.tensor
    rank = array.tensor.fake.dim()
    windows = _numbers(tx, window_shape)
    axes = [ConstantVariable(n) for n in range(rank)] if axis.is_none() else _numbers(tx, axis)
    if len(windows) != len(axes) or not windows:
        _refuse("sliding_window_view", window_shape)
    dims = [number.constant() % rank for number in axes]
    for dim, window in zip(dims, windows):
        tensor = tensor.call_method(tx, "unfold", [ConstantVariable(dim), window, ConstantVariable(1)], {})
    assert isinstance(tensor, TensorVariable)
    return NdarrayVariable(tensor, writeable=bool(writeable.constant()) and array.writeable)


@models.of_plain_tensors(as_strided)
def _as_strided(
    tx: Tracer, x: Value, shape: Value = NONE, strides: Value = NONE, subok: Value = FALSE, writeable: Value = TRUE
) -> Value:
    array = _in_tensor("as_strided", x, subok)
    sizes = _numbers(tx, array.get_attr(tx, "shape") if shape.is_none() else shape)
    steps = _numbers(tx, array.get_attr(tx, "strides") if strides.is_none() else strides)
    size = array.dtype.itemsize
    counts = [step.constant() for step in steps]
    if any(count % size or count < 0 for count in counts):
        _refuse("as_strided", strides)
    elements = TupleVariable([ConstantVariable(count // size) for count in counts])
    made = array.tensor.call_method(tx, "as_strided", [TupleVariable(sizes), elements], {})
    assert isinstance(made, TensorVariable)
    return NdarrayVariable(made, writeable=bool(writeable.constant()) and array.writeable)


@models.of_plain_tensors(np.frombuffer)
def _from_buffer(
    tx: Tracer, buffer: Value, dtype: Value = NONE, count: Value = ConstantVariable(-1), offset: Value = ConstantVariable(0)
) -> Value:
    """An array of bytes that are known; that of a buffer would change with it."""
    if not buffer.is_constant() or type(buffer.constant()) is not bytes:
        _refuse("frombuffer", buffer)
    kind = dtype.value if isinstance(dtype, NumpyDtypeVariable) else getattr(dtype, "value", None) or float
    array = tx.run_now(np.frombuffer, buffer.constant(), np.dtype(kind), plain_form(tx, count), plain_form(tx, offset))
    is_known = array.dtype.name in SHARED_DTYPES and array.dtype.isnative and array.dtype.kind != "c"
    if not is_known or array.size > LARGEST_KNOWN or not np.isfinite(array).all():
        _refuse("frombuffer", dtype)
    options = {"dtype": torch.from_numpy(array.copy()).dtype, "device": torch.device("cpu")}
    tensor = tx.output.call_function(torch.tensor, (array.tolist(),), options)
    assert isinstance(tensor, TensorVariable)
    return NdarrayVariable(tensor, writeable=False).knowing(tx, array)
