"""torch.cov and torch.corrcoef, written so that they can be traced. Torch's own branch on a count that they have in a tensor."""

from __future__ import annotations

import torch

from tracer.inside import graph_break
from tracer.library.polyfills.replacing import replaces


@replaces(torch.cov, torch.Tensor.cov)
def cov(
    input: torch.Tensor, *, correction: int = 1, fweights: torch.Tensor | None = None, aweights: torch.Tensor | None = None
) -> torch.Tensor:
    rows = input.view(1, -1) if input.dim() < 2 else input
    plain = fweights is None and aweights is None and rows.dim() == 2 and (input.is_floating_point() or input.is_complex())
    if not plain or rows.size(1) <= max(correction, 0):  # torch warns
        graph_break()
    count = torch.scalar_tensor(rows.size(1), dtype=torch.int64, device=input.device)
    rows = rows - (rows.sum(1) / count).unsqueeze(1)
    return torch.true_divide(torch.mm(rows, rows.t().conj()), count - correction).squeeze()


@replaces(torch.corrcoef, torch.Tensor.corrcoef)
def corrcoef(input: torch.Tensor) -> torch.Tensor:
    if not input.is_floating_point():
        graph_break()
    covariance = torch.cov(input)
    if covariance.dim() == 0:
        return covariance / covariance
    deviation = torch.sqrt(covariance.diag())
    covariance = covariance / deviation.view(-1, 1)
    return (covariance / deviation.view(1, -1)).clip(-1, 1)
