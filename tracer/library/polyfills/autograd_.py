"""torch.autograd.Variable, which older programs put around each tensor, written so that it can be traced."""

from __future__ import annotations

from typing import Any

import torch

from tracer.inside import graph_break
from tracer.library.polyfills.replacing import replaces


@replaces(torch.autograd.Variable)
def variable(
    data: torch.Tensor | None = None, requires_grad: bool = False, volatile: bool = False, _grad_fn: Any = None, name: Any = None
) -> torch.Tensor:
    plain = type(data) is torch.Tensor or type(data) is torch.nn.Parameter
    if data is None or not plain or volatile or _grad_fn is not None:  # torch warns of `volatile` and refuses `_grad_fn`
        graph_break()
        raise AssertionError
    made = data.detach()
    return made.requires_grad_() if requires_grad else made
