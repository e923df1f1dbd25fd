"""Whether a value that is written to an array lies in its memory at the same places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracer.graph.fakes.fake_tensors import expr_of

if TYPE_CHECKING:
    import torch


def is_laid_alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two fakes in one memory have each element at the same place, whatever the sizes that vary are."""
    return _layout(one) == _layout(other)


def _layout(fake: torch.Tensor) -> list[Any]:
    numbers = [*fake.shape, *fake.stride(), fake.storage_offset(), fake.dtype]
    return [expr_of(number) if hasattr(number, "node") else number for number in numbers]
