"""A layer, and the parameters for it, that tests of backends share."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def mlp(x, weight, bias):
    h = F.linear(x, weight, bias)
    return h.relu().reshape(-1, 2).sum(0) * x.shape[0]


def weight_and_bias():
    """A weight of 4 x 3 and a bias, the same each time."""
    torch.manual_seed(0)
    return torch.randn(4, 3, requires_grad=True), torch.randn(4, requires_grad=True)
