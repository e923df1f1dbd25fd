"""Checks of matrices in torch.distributions, without a branch on data. The distribution that asks raises where one fails."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributions import constraints

from tracer.library.polyfills.replacing import replaces


@replaces(type(constraints.symmetric).check)
def is_symmetric(self: Any, value: torch.Tensor) -> torch.Tensor:
    square = type(constraints.square).check(self, value)
    if value.shape[-2] != value.shape[-1] and square.numel() > 0:
        return square
    return torch.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


@replaces(type(constraints.positive_semidefinite).check)
def is_positive_semidefinite(self: Any, value: torch.Tensor) -> torch.Tensor:
    symmetric = type(constraints.symmetric).check(self, value)
    if value.shape[-2] != value.shape[-1]:
        return symmetric
    return torch.where(symmetric.all(), torch.linalg.eigvalsh(value).ge(0).all(-1), symmetric)


@replaces(type(constraints.positive_definite).check)
def is_positive_definite(self: Any, value: torch.Tensor) -> torch.Tensor:
    symmetric = type(constraints.symmetric).check(self, value)
    if value.shape[-2] != value.shape[-1]:
        return symmetric
    return torch.where(symmetric.all(), torch.linalg.cholesky_ex(value).info.eq(0), symmetric)
