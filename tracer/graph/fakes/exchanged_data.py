"""What `tensor.data = other` makes of a tensor that requires gradients, as an operation of the graph."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.functional_tensor import FunctionalTensor

from tracer import _C


class _Exchanged(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
        return data.detach()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient, None


def exchanged(tensor: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    """In the memory of `data`, with the history of `tensor`: gradients go to what it was."""
    with torch.enable_grad():
        return _Exchanged.apply(tensor, data)


def data_for(tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """other.data, as what `tensor` will hold: writes to it count as writes to `tensor`, by which autograd notices them. There are
    no counters in a compiler's trace."""
    data = other.data
    if not isinstance(data, FunctionalTensor) and not tensor.is_inference() and not data.is_inference():
        _C.share_version(data, tensor)
    return data


def exchange(tensor: torch.Tensor, data: torch.Tensor) -> None:
    """tensor.data = data, of what a graph gave: writes to the tensor count as writes to what a compiled graph has kept of it.
    What was kept of the tensor before must not seem to have changed."""
    tensor.data = data
    if not tensor.is_inference() and not data.is_inference() and tensor._version == data._version:
        _C.share_version(tensor, data)


_C.never_trace(exchange.__code__)


def is_exchanged_leaf(fake: Any) -> bool:
    """Whether a fake stands for a leaf whose data were exchanged: it has a history in the graph alone."""
    return getattr(fake, "exchanged_at", None) is not None


def exchanged_at(fake: Any) -> int | None:
    """At which step the data of such a leaf, or of one that this is a view of, were exchanged."""
    step: int | None = getattr(fake, "exchanged_at", None)
    if step is None and fake._is_view():
        step = getattr(fake._base, "exchanged_at", None)
    return step
