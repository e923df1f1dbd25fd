"""What `backward()` does with the gradient of a leaf, as operations of the graph."""

from __future__ import annotations

import torch


def first_gradient(leaf: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """What is stored where there was no gradient: memory of its own, laid out as the leaf's."""
    return torch.empty_like(leaf.detach()).copy_(gradient.detach())


def keeps_layout(leaf: torch.Tensor) -> bool:
    """Whether `empty_like` lays out a gradient as autograd would."""
    if leaf.is_contiguous() or leaf.dim() < 2:
        return leaf.is_contiguous()
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if leaf.dim() in formats and leaf.is_contiguous(memory_format=formats[leaf.dim()]):
        return True
    return leaf.dim() == 2 and leaf.t().is_contiguous()
