"""Whether two tensors of one storage have no element in common, as the slices of a packed tensor."""

from __future__ import annotations

from typing import Any

import torch


def are_apart(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two strided tensors of one dtype in one storage are known to share no element. Conditions on symbolic sizes are
    guarded as they come out."""
    if one.storage_offset() > other.storage_offset():
        one, other = other, one
    distance = other.storage_offset() - one.storage_offset()
    if one.dtype is not other.dtype:
        return False
    if _reach(one, range(one.dim())) <= distance:
        return True
    return any(_are_apart_within(period, one, other, distance) for period in one.stride() if period > distance)


def _are_apart_within(period: Any, one: torch.Tensor, other: torch.Tensor, distance: Any) -> bool:
    """Whether they lie in different parts of each `period` elements of the storage."""
    reach = _reach(one, _inner(one, period)), _reach(other, _inner(other, period))
    return bool(reach[0] <= distance) and bool(distance + reach[1] <= period)


def _inner(tensor: torch.Tensor, period: Any) -> list[int]:
    """The dims along which a step is no whole number of periods."""
    return [dim for dim, step in enumerate(tensor.stride()) if step % period != 0]


def _reach(tensor: torch.Tensor, dims: Any) -> Any:
    """How many elements of the storage there are from the first to the last one along some dims."""
    reach: Any = 1
    for dim in dims:
        reach = reach + (tensor.size(dim) - 1) * tensor.stride(dim)
    return reach
