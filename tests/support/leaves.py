"""Leaves that require gradients."""

from __future__ import annotations

import torch


def leaf(offset: float = 0.0) -> torch.Tensor:
    """Five numbers from -2 to 2, and `offset` more."""
    return (torch.linspace(-2, 2, 5) + offset).requires_grad_()
