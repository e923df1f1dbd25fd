"""Operators whose results have plain metadata, which PyTorch works out by running a long decomposition on fakes, or gets wrong.

Each rule is met below autograd, and gives what the operator gives on real tensors.
"""

from __future__ import annotations

from typing import Any

import torch

from tracer.operators.meta import meta

aten = torch.ops.aten


@meta(aten._native_batch_norm_legit_no_training.default)
def _normalised_by_statistics(
    func: Any,
    input: torch.Tensor,
    weight: Any,
    bias: Any,
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    momentum: float,
    eps: float,
) -> Any:
    """Batch norm with given statistics: what went in comes out. The CPU saves nothing of it."""
    sizes = (*input.shape, *input.stride())
    if input.device.type != "cpu" or not input.dtype.is_floating_point or not all(type(size) is int for size in sizes):
        return NotImplemented
    if input.dim() < 2 or not input.is_contiguous():
        return NotImplemented
    for each in (weight, bias, running_mean, running_var):
        if each is not None and (tuple(each.shape) != (input.shape[1],) or each.device != input.device):
            return NotImplemented
        if each is not None and not each.dtype.is_floating_point:
            return NotImplemented
    return input.new_empty(input.shape), running_mean.new_empty((0,)), running_var.new_empty((0,))


@meta(aten.native_dropout.default)
def _native_dropout(func: Any, input: torch.Tensor, p: float, train: Any) -> Any:
    """Where nothing is dropped, a copy; PyTorch's decomposition gives the argument."""
    if train is None or train:
        return NotImplemented
    return torch.clone(input), torch.ones_like(input, dtype=torch.bool)
