"""Where in an array a value is written that lies in the same memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracer.graph.fakes.fake_tensors import expr_of
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.containers.ranges import SliceVariable
from tracer.variables.values.symbolic import is_number

if TYPE_CHECKING:
    import torch

    from tracer.protocol.tracer import Tracer
    from tracer.protocol.variable import VariableTracker


def is_basic_index(tx: Tracer, key: VariableTracker) -> bool:
    """Whether an index gives a view: it has only numbers, slices, None and Ellipsis."""
    parts = key.items(tx) if type(key) is TupleVariable else [key]
    return all(isinstance(part, SliceVariable) or _is_plain(part) for part in parts)


def _is_plain(part: VariableTracker) -> bool:
    if part.is_constant():
        value = part.constant()
        return value is None or value is ... or type(value) is int
    return is_number(part) and part.python_type() is int


def is_laid_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two fakes in one memory have each element at the same place, whatever the sizes that vary are."""
    return _layout(one) == _layout(other)


def _layout(fake: torch.Tensor) -> list[Any]:
    numbers = [*fake.shape, *fake.stride(), fake.storage_offset(), fake.dtype]
    return [expr_of(number) if hasattr(number, "node") else number for number in numbers]
