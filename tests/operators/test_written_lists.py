"""Operators that write to several lists of tensors, given to compilers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tracer

OPTIMIZERS = {
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.1, fused=True),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.1, fused=True),
    "amsgrad": lambda parameters: torch.optim.Adam(parameters, lr=0.1, amsgrad=True, fused=True),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, fused=True),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, fused=True),
    "adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.1, fused=True),
}


def trained(name, backend=None):
    """The losses, the parameters and the optimizer's state after four steps."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    optimizer = OPTIMIZERS[name](model.parameters())

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = tracer.optimize(backend, fullgraph=True)(step) if backend else step
    losses = [run(torch.ones(2 + i, 4)) for i in range(4)]
    return losses, list(model.parameters()), optimizer.state_dict()["state"]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_of_a_fused_optimizer_is_compiled_with_the_pass_before_it(name, backend):
    torch.testing.assert_close(trained(name, backend), trained(name))
