"""Models of functions that give tensors whose sizes depend on data: of constants, the graph has the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.tensors.tensor import TensorVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker

_FUNCTIONS: tuple[Any, ...] = (
    torch.unique, torch.unique_consecutive, torch.nonzero, torch.argwhere, torch.bincount, torch.repeat_interleave,
)  # fmt: skip


def of_constants(tx: Tracer, function: Any, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value | None:
    """What such a function gives of tensors that depend on constants alone; None for others."""
    values = (*args, *kwargs.values())
    tensors = [value for value in values if isinstance(value, TensorVariable)]
    numbers_known = all(value.is_constant() for value in values if not isinstance(value, TensorVariable))
    if not tensors or not numbers_known or any(each.decided(tx) is None for each in tensors):
        return None
    try:
        result = function(*(_real(tx, arg) for arg in args), **{key: _real(tx, value) for key, value in kwargs.items()})
    except (RuntimeError, TypeError, ValueError):  # which the graph raises, too
        return None
    return _constant(tx, result) if isinstance(result, torch.Tensor) else TupleVariable([_constant(tx, each) for each in result])


def _computed_of_constants(function: Any) -> Any:
    def model(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
        return of_constants(tx, function, args, kwargs) or tx.call_in_graph(function, list(args), kwargs)

    return model


def _real(tx: Tracer, value: Value) -> Any:
    return value.decided(tx) if isinstance(value, TensorVariable) else value.constant()


def _constant(tx: Tracer, tensor: torch.Tensor) -> Value:
    made = tx.call_in_graph(torch.tensor, [tx.literal(tensor.flatten().tolist())], {"dtype": tx.literal(tensor.dtype)})
    return made if tensor.dim() == 1 else made.call_method(tx, "reshape", [tx.literal(size) for size in tensor.shape], {})


for _function in _FUNCTIONS:
    models.of_plain_tensors(_function)(_computed_of_constants(_function))
