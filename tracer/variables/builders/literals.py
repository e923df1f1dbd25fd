"""From a Python value made of constants to its tracked form."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch

from tracer.graph_breaks import unsupported
from tracer.guards.constants import LIBRARY_VALUES
from tracer.protocol.variable import VariableTracker
from tracer.variables.classes.enums import EnumMemberVariable
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import ListVariable, RangeVariable, SizeVariable, SliceVariable, TupleVariable
from tracer.variables.containers.set_history import Constant, Made
from tracer.variables.containers.sets import FrozenSetVariable, SetVariable
from tracer.variables.objects import patterns
from tracer.variables.tensors.dtypes_of_numpy import NumpyDtypeVariable
from tracer.variables.values.constant import CONSTANT_TYPES, ConstantVariable, is_constant_value
from tracer.variables.values.dates import LibraryValueVariable
from tracer.variables.values.decimals import VALUE_CLASSES


def from_python(value: Any) -> VariableTracker:
    """The tracked form of a new value made of constants."""
    cls = type(value)
    if cls in patterns.PATTERN_TYPES:
        return patterns.tracked(value)
    if cls in CONSTANT_TYPES or isinstance(value, (np.number, np.bool_)):
        return ConstantVariable(value)
    if isinstance(value, np.dtype):
        return NumpyDtypeVariable(value)
    if isinstance(value, enum.Enum):
        return EnumMemberVariable(value)
    if cls in LIBRARY_VALUES and is_constant_value(value):
        return VALUE_CLASSES.get(cls, LibraryValueVariable)(value)
    make = _CONTAINERS.get(cls)
    if make is None:
        unsupported("not-a-constant", value=f"a result of type {cls.__name__}")
    return make(value)


def _slice(value: slice) -> SliceVariable:
    return SliceVariable(from_python(value.start), from_python(value.stop), from_python(value.step))


def _range(value: range) -> RangeVariable:
    return RangeVariable(from_python(value.start), from_python(value.stop), from_python(value.step))


def _set(value: set[Any]) -> SetVariable:
    made = frozenset(value)
    if list(set(made)) != list(value):  # only the operations that made it give this order again
        unsupported("set-order", value="a set that was computed")
    return SetVariable(_entries(value), shadow=set(made), history=Made(set, (Constant(made),)))


def _frozenset(value: frozenset[Any]) -> FrozenSetVariable:
    return FrozenSetVariable(_entries(value), shadow=value, history=Constant(value))


def _entries(value: Iterable[Any]) -> dict[Any, VariableTracker]:
    return {item: from_python(item) for item in value}


_CONTAINERS: dict[type, Callable[[Any], VariableTracker]] = {
    tuple: lambda value: TupleVariable([from_python(item) for item in value]),
    torch.Size: lambda value: SizeVariable([from_python(item) for item in value]),
    list: lambda value: ListVariable([from_python(item) for item in value]),
    dict: lambda value: DictVariable({key: (from_python(key), from_python(item)) for key, item in value.items()}),
    set: _set,
    frozenset: _frozenset,
    slice: _slice,
    range: _range,
}
