"""Models of what NumPy says of dtypes: `np.dtype`, `np.issubdtype`, `np.finfo`, promotion. They are answered while tracing."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from tracer.graph_breaks import unsupported
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.tensors.arrays import NdarrayVariable
from tracer.variables.tensors.dtypes_of_numpy import NumpyDtypeVariable, NumpyLimitsVariable
from tracer.variables.values.constant import FALSE
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker
_FUNCTIONS: tuple[Any, ...] = (
    np.dtype, np.issubdtype, np.finfo, np.iinfo, np.result_type, np.promote_types, np.can_cast, np.min_scalar_type,
    np.common_type, np.isdtype, np.mintypecode, np.isscalar,
)  # fmt: skip
_OF_ARRAYS = (np.result_type, np.common_type)


def _argument(function: Any, value: Value) -> Any:
    """A class, a dtype or a constant; for an array or a number that varies, one that promotes alike."""
    if isinstance(value, ClassVariable):
        return value.value
    if isinstance(value, NdarrayVariable) and function in _OF_ARRAYS:
        return np.empty((1,) * value.tensor.fake.dim(), value.dtype)
    if isinstance(value, SymNodeVariable) and function is np.result_type:
        return value.python_type()(0)
    if not value.is_constant():
        unsupported("unsupported-builtin", function=f"numpy.{function.__name__} of {value.describe()}")
    return value.constant()


def _model(function: Any) -> Any:
    def model(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
        given = [_argument(function, value) for value in args]
        named = {key: _argument(function, value) for key, value in kwargs.items()}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = tx.run_now(function, *given, **named)
        if caught:
            unsupported("unsupported-builtin", function=f"numpy.{function.__name__}, which warns")
        return _tracked(tx, result)

    return model


def _tracked(tx: Tracer, result: Any) -> Value:
    if isinstance(result, np.dtype):
        return NumpyDtypeVariable(result)
    if isinstance(result, (np.finfo, np.iinfo)):
        return NumpyLimitsVariable(result)
    return tx.class_variable(result) if isinstance(result, type) else tx.literal(result)


for _numpys in _FUNCTIONS:
    models.of_plain_tensors(_numpys)(_model(_numpys))


@models.of_plain_tensors(np.bool_)
def _bool(tx: Tracer, value: Value = FALSE) -> Value:
    if not value.is_constant():
        unsupported("unsupported-builtin", function="numpy.bool of something else than a constant")
    return tx.literal(np.bool_(value.constant()))
