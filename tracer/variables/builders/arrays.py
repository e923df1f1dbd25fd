"""From NumPy's arrays, scalars and dtypes that existed before the frame ran to their tracked form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tracer.guards.arrays import ArrayMatch, ScalarMatch, is_shareable_array
from tracer.guards.identity import IdMatch, TypeMatch
from tracer.protocol.variable import VariableTracker
from tracer.sources.base import Source
from tracer.sources.reading import tensor_of_array
from tracer.sources.tensors import ArrayTensorSource, ScalarNumberSource
from tracer.variables.builders.builder import VariableBuilder, opaque, tracks, tracks_subclasses
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.tensors.arrays import NdarrayVariable
from tracer.variables.tensors.dtypes_of_numpy import NumpyDtypeVariable, NumpyLimitsVariable
from tracer.variables.tensors.known_arrays import SHARED_DTYPES
from tracer.variables.tensors.passed_scalars import PassedScalarVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_SHARED_DTYPES = frozenset(map(np.dtype, SHARED_DTYPES))


@tracks(np.ndarray)
@tracks_subclasses(np.number, np.bool_)
def _array(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    cls = type(value)
    writeable = cls is not np.ndarray or value.flags.writeable
    if not is_shareable_array(value, cls, value.dtype, writeable) or value.dtype not in _SHARED_DTYPES:
        return opaque(builder, value, source)
    if cls is not np.ndarray and builder.trace.policy.scalar_is_constant(source, ScalarNumberSource(source), value.item()):
        builder.guard(ScalarMatch(source, cls, value.tobytes()))
        return ConstantVariable(value, source)
    builder.guard(ArrayMatch(source, cls, value.dtype.str, writeable))
    tensor = tx.wrap(tensor_of_array(value), ArrayTensorSource(source))
    assert isinstance(tensor, TensorVariable) and tensor.source is not None
    del builder.trace.marks[tensor.source]
    if cls is np.ndarray:
        return builder.remember(value, NdarrayVariable(tensor, cls, source, writeable))
    builder.trace.input_tensors.pop()  # a number: its identity does not matter
    return PassedScalarVariable(tensor, cls, source)


@tracks(type(np.random.RandomState.rand))
def _cython_function(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    """A method of NumPy's random number generators, which are Cython functions."""
    builder.guard(IdMatch(source, value))
    return builder.remember(value, CallableVariable(value, source))


@tracks(np.random.Generator, np.random.RandomState)
def _generator(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    """What it draws is modelled in `library.random_`."""
    builder.guard(TypeMatch(source, type(value)))
    return builder.remember(value, UserObjectVariable(type(value), value, source))


@tracks_subclasses(np.dtype)
def _numpy_dtype(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    if value not in _SHARED_DTYPES:
        return opaque(builder, value, source)
    builder.guard(IdMatch(source, value))
    return NumpyDtypeVariable(value, source)


@tracks(np.finfo, np.iinfo)
def _limits(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(IdMatch(source, value))
    return NumpyLimitsVariable(value, source)
