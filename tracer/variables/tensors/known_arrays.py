"""Operations of NumPy on constants, and on arrays computed from constants. NumPy computes them while tracing, and the graph holds
the numbers."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tracer.graph.fakes.trial_arrays import arrays_in, computed_by_numpy
from tracer.graph.operations.array_operations import ArrayOperation
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import ListVariable, SequenceVariable, SizeVariable, TupleVariable
from tracer.variables.containers.ranges import RangeVariable, SliceVariable
from tracer.variables.tensors.tensor import TensorVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Wrap = Callable[[TensorVariable, Any], VariableTracker]

PYTHON_NUMBERS = (bool, int, float, complex)
PLAIN = (int, float, bool, complex, str, type(None), type(Ellipsis), np.dtype, np.generic)
_NAMES = "bool int8 uint8 int16 int32 int64 float16 float32 float64 complex64 complex128"
SHARED_DTYPES = frozenset(_NAMES.split())  # the names of those that torch has, too
LARGEST_KNOWN = 4096  # elements of an array whose values are written into the graph
_ABSTRACT = (
    np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger, np.inexact, np.floating, np.complexfloating,
    np.flexible, np.character,
)  # fmt: skip
_UNKNOWN = object()


def is_number_class(kind: type) -> bool:
    """Whether NumPy takes a class as a dtype."""
    return kind in PYTHON_NUMBERS or issubclass(kind, np.generic) and kind not in _ABSTRACT


def known_result(
    tx: Tracer, operation: ArrayOperation, args: list[VariableTracker], kwargs: dict[str, VariableTracker], wrap: Wrap
) -> VariableTracker | None:
    """The result of an operation on constants and arrays of known values; None where it is not known, or where the operation
    changes an argument or returns its memory. `wrap(tensor, values)` makes the tracked form of an array."""
    given = _given(tx, args, kwargs)
    if given is None or "empty" in operation.name:
        return None
    outcome = computed_by_numpy(operation, *given)
    return None if outcome is None or not _is_held(outcome[0]) else _tracked(tx, outcome[0], wrap, {})


def known_view(
    tx: Tracer, operation: ArrayOperation, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> np.ndarray[Any, Any] | None:
    """The values of a view of an array of known values."""
    given = _given(tx, args, kwargs)
    if given is None:
        return None
    outcome = computed_by_numpy(operation, *given, views=True)
    return outcome[0] if outcome is not None and type(outcome[0]) is np.ndarray and _has_known_values(outcome[0]) else None


def _given(
    tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> tuple[list[Any], dict[str, Any]] | None:
    """The values of arguments; None where one is not known."""
    given = [_value(tx, arg) for arg in args], {key: _value(tx, value) for key, value in kwargs.items()}
    return None if any(value is _UNKNOWN for value in (*given[0], *given[1].values())) else given


def _value(tx: Tracer, value: VariableTracker) -> Any:
    """A constant, a copy of an array of known values, or a list or tuple of those; otherwise `_UNKNOWN`."""
    if isinstance(value, SequenceVariable) and type(value) in (ListVariable, TupleVariable, SizeVariable):
        items = [_value(tx, item) for item in value.items(tx)]
        if any(item is _UNKNOWN for item in items):
            return _UNKNOWN
        return items if isinstance(value, ListVariable) else tuple(items)
    if isinstance(value, (SliceVariable, RangeVariable)):
        return value.constant() if value.is_constant() else _UNKNOWN
    if value.is_constant():
        constant = value.constant()
        return constant if isinstance(constant, PLAIN) else _UNKNOWN
    kind = getattr(value, "value", None)
    if isinstance(kind, type):
        return np.dtype(kind) if is_number_class(kind) else _UNKNOWN
    known = getattr(value, "known", None)
    values = None if known is None else known(tx)
    return _UNKNOWN if values is None else values.copy()


def _is_held(result: Any) -> bool:
    """Whether a graph can hold what NumPy computed, written as numbers."""
    if type(result) in (tuple, list):
        apart = {id(array): array for array in arrays_in(result)}.values()
        shared = any(np.may_share_memory(one, other) for one, other in itertools.combinations(apart, 2))
        return not shared and all(map(_is_held, result))
    if type(result) is not np.ndarray:
        return isinstance(result, (*PYTHON_NUMBERS, np.number, np.bool_)) or type(result) is str
    return bool(_has_known_values(result) and result.flags.c_contiguous and result.flags.writeable)


def _has_known_values(array: np.ndarray[Any, Any]) -> bool:
    if array.dtype.name not in SHARED_DTYPES or array.dtype.kind == "c" or array.size > LARGEST_KNOWN:
        return False
    return bool(np.all(np.isfinite(array)))


def _tracked(tx: Tracer, result: Any, wrap: Wrap, made: dict[int, VariableTracker]) -> VariableTracker:
    """`made` has the arrays so far: NumPy may give one several times."""
    if type(result) in (tuple, list):
        items = [_tracked(tx, item, wrap, made) for item in result]
        return TupleVariable(items) if type(result) is tuple else ListVariable(items)
    if type(result) is not np.ndarray:
        return tx.literal(result)
    if id(result) in made:
        return made[id(result)]
    options = {"dtype": torch.from_numpy(result).dtype, "device": torch.device("cpu")}
    tensor = tx.output.call_function(torch.tensor, (result.tolist(),), options)
    if result.size == 0:  # a nested list does not tell all sizes of it
        tensor = tensor.call_method(tx, "reshape", [tx.literal(size) for size in result.shape], {})
    assert isinstance(tensor, TensorVariable)
    made[id(result)] = wrap(tensor, result)
    return made[id(result)]
