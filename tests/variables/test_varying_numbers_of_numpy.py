"""Floats of NumPy that differ from call to call, beside tensors: one entry serves all, with the results of Python's numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import tracer
from tests.support.comparing import Comparison


def mixed(x, lam):
    return lam * x + (1 - lam) * x.flip(0), x * lam, lam - x


def weighted(x, lam):
    return lam * x.sum() + (1 - lam) * (x * x).sum(), x.mean() / lam


def as_argument(x, lam):
    return torch.clamp(x, max=lam), x**lam, torch.add(x, x, alpha=lam), F.leaky_relu(x - 0.5, lam)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize("program", [mixed, weighted, as_argument])
def test_a_float_of_numpy_beside_a_tensor(program, kind, backend):
    traced = tracer.compile(program, backend=backend, fullgraph=True)
    for i in range(6):
        x, lam = torch.rand(4, 3), kind(np.random.RandomState(i).rand())
        Comparison().same(program(x, lam), traced(x, lam), "result")
    assert len(tracer.region_of(traced).entries()) <= 2


def test_a_loss_that_is_weighted_by_a_float_of_numpy():
    def step(x, weight, y, lam):
        logits = (lam * x + (1 - lam) * x.flip(0)) @ weight
        loss = lam * F.cross_entropy(logits, y) + (1 - lam) * F.cross_entropy(logits, y.flip(0))
        loss.backward()
        return loss.detach(), weight.grad

    traced = tracer.compile(step, fullgraph=True)
    for i in range(5):
        generator = np.random.RandomState(i)
        x, weight, y, lam = torch.rand(4, 3), torch.rand(3, 2), torch.tensor([0, 1, 1, 0]), generator.beta(1.0, 1.0)
        lam = np.float64(lam)
        ours, theirs = (weight.clone().requires_grad_() for _ in range(2))
        Comparison().same(step(x, theirs, y, lam), traced(x, ours, y, lam), "result")
    assert len(tracer.region_of(traced).entries()) <= 2


def test_zero_and_numbers_that_are_none():
    traced = tracer.compile(weighted)
    for lam in (0.5, 0.25, 0.0, float("nan"), float("inf"), -1.0, 0.0):
        x = torch.rand(3)
        with np.errstate(all="ignore"):
            Comparison().same(weighted(x, np.float64(lam)), traced(x, np.float64(lam)), "result")
