"""Operators of a tensor and an array of NumPy, such as `tensor + array`. Torch's operator does not take the array, so that Python
asks NumPy's: it computes with the tensor's memory, and what it gives is made a tensor (`Tensor.__array_wrap__`)."""

from __future__ import annotations

import functools
import operator
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tracer import _C
from tracer.graph.operations.array_operations import array_operation
from tracer.graph_breaks import unsupported
from tracer.library.numpy_ import shared_tensor
from tracer.library.warnings_ import defer_warning
from tracer.protocol.models import models
from tracer.variables.tensors.arrays import NdarrayVariable, apply, tensor_with_array
from tracer.variables.tensors.tensor import TensorVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.protocol.variable import VariableTracker


@models(tensor_with_array)
def _tensor_with_array(
    tx: Tracer, function: Callable[[Any, Any], Any], tensor: TensorVariable, array: NdarrayVariable
) -> VariableTracker:
    fake = tensor.fake
    if fake.requires_grad or fake.device.type != "cpu" or tensor.cls is not torch.Tensor or not _is_numpys(function):
        unsupported("unsupported-operator", left=tensor.describe(), op=function.__name__, right=array.describe())
    tensor.rely_on("__array_wrap__")
    shared = tensor.call_method(tx, "numpy", [], {})
    result = apply(tx, array_operation("operator", function.__name__), [shared, array], {})
    if not isinstance(result, NdarrayVariable) or result.is_scalar or result.dtype == np.bool_:
        unsupported("unsupported-operator", left=tensor.describe(), op=function.__name__, right=array.describe())
    if _warns():
        defer_warning(tx, "an operator of a tensor and an array, of which NumPy warns", _warn)
    return shared_tensor(tx, result)


@functools.cache
def _is_numpys(function: Callable[[Any, Any], Any]) -> bool:
    """Whether the operator gives a tensor, since torch leaves it to NumPy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return type(function(torch.ones(1, 1, dtype=torch.int64), np.ones((1, 1), np.int64))) is torch.Tensor
        except Exception:
            return False


@functools.cache
def _warns() -> bool:
    """Whether NumPy warns of how torch makes tensors of what it gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _warn()
    return bool(caught)


def _warn() -> None:
    """Called by output code."""
    operator.add(torch.zeros(1), np.zeros(1))


_C.never_trace(_warn.__code__)
