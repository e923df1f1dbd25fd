"""Fakes for the results of operators that are not run while tracing."""

from __future__ import annotations

from typing import Any

import torch


class _Made(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, like: torch.Tensor, *read: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        ctx.save_for_backward(*read)
        return fresh(like)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None, *(fresh(tensor) for tensor in ctx.saved_tensors)


def fresh(like: torch.Tensor) -> torch.Tensor:
    """A tensor of the same kind in memory of its own."""
    return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device)


def result_of(like: torch.Tensor, read: list[torch.Tensor]) -> torch.Tensor:
    """A new tensor; autograd sees that it depends on `read`."""
    return _Made.apply(like.detach(), *read)  # type: ignore[no-any-return]
