"""Python floats that vary, or that data decide, as operands of NumPy's operations: in the graph they are tensors without dims."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tracer.graph.operations.array_operations import ArrayOperation
from tracer.variables.containers.lists import ListVariable, TupleVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.protocol.variable import VariableTracker

_POWERS = frozenset("pow ipow power float_power".split())  # NumPy computes some exponents otherwise, which a number tells it
_AS_UFUNCS = frozenset(("clip", "where"))
_OF_ARRAYS = frozenset("array asarray full full_like fill".split())  # they make an array of a float, by itself one of float64


def with_scalars(
    tx: Tracer,
    operation: ArrayOperation,
    values: list[VariableTracker],
    dtypes: list[np.dtype[Any]],
    make: Callable[[TensorVariable, type], VariableTracker],
) -> list[VariableTracker]:
    """Arguments of an operation with scalars of NumPy for the floats that vary, also in lists and tuples. `make` makes them of a
    tensor and a class. `dtypes`: those of the arrays among the arguments."""
    made: list[VariableTracker] = []
    for value in values:
        if isinstance(value, (ListVariable, TupleVariable)) and type(value) in (ListVariable, TupleVariable):
            items = value.items(tx)
            scalars = with_scalars(tx, operation, items, dtypes, make)
            made.append(value if all(map(operator.is_, scalars, items)) else type(value)(scalars))
        else:
            found = _float_as_scalar(tx, operation, value, dtypes)
            made.append(value if found is None else make(*found))
    return made


def _float_as_scalar(
    tx: Tracer, operation: ArrayOperation, value: VariableTracker, others: list[np.dtype[Any]]
) -> tuple[TensorVariable, type] | None:
    """A tensor for a float that varies, and the class of NumPy's scalar that acts as the float does beside arrays of these
    dtypes. None for other values, and if the operation takes the number itself."""
    kind, _, name = operation.name.partition(":")
    if not isinstance(value, SymNodeVariable) or value.python_type() is not float or name in _POWERS:
        return None
    if kind == "operator" or name in _AS_UFUNCS or isinstance(getattr(np, name, None), np.ufunc):
        dtype = np.zeros((), np.result_type(*others, 0.5)).real.dtype  # a float of Python takes the dtype of floats that it meets
    elif name in _OF_ARRAYS:
        dtype = np.dtype(np.float64)
    else:
        return None
    made = tx.call_in_graph(torch.scalar_tensor, [value], {"dtype": tx.literal(_DTYPES[dtype.name])})
    assert isinstance(made, TensorVariable)
    return made, dtype.type


_DTYPES = {"float16": torch.float16, "float32": torch.float32, "float64": torch.float64}
