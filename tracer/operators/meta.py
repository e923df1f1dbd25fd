"""Operators whose results have plain metadata, which PyTorch works out by running a long decomposition on fakes, or gets wrong.

A rule runs below autograd. It gives what the operator gives on real tensors, or NotImplemented.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten


def _normalised_by_statistics(
    data: torch.Tensor, weight: Any, bias: Any, mean: torch.Tensor, variance: torch.Tensor, momentum: float, eps: float
) -> Any:
    """Batch norm with given statistics: what went in comes out. The CPU saves nothing of it."""
    sizes = (*data.shape, *data.stride())
    if data.device.type != "cpu" or not data.dtype.is_floating_point or not all(type(size) is int for size in sizes):
        return NotImplemented
    if data.dim() < 2 or not data.is_contiguous():
        return NotImplemented
    for each in (weight, bias, mean, variance):
        if each is not None and (tuple(each.shape) != (data.shape[1],) or each.device != data.device):
            return NotImplemented
        if each is not None and not each.dtype.is_floating_point:
            return NotImplemented
    return data.new_empty(data.shape), mean.new_empty((0,)), variance.new_empty((0,))


def _native_dropout(data: torch.Tensor, p: float, train: Any) -> Any:
    """Where nothing is dropped, a copy; PyTorch's decomposition gives the argument."""
    if train is None or train:
        return NotImplemented
    return torch.clone(data), torch.ones_like(data, dtype=torch.bool)


META_RULES: dict[Any, Callable[..., Any]] = {
    aten._native_batch_norm_legit_no_training.default: _normalised_by_statistics,
    aten.native_dropout.default: _native_dropout,
}
