"""Covariance and correlation, to the last bit as torch computes them."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.support import captured, check
from tests.support.comparing import Comparison

COMPUTED = {
    "covariance": torch.cov,
    "of a method": lambda x: x.cov(correction=0),
    "with a correction": lambda x: torch.cov(x, correction=2),
    "correlation": lambda x: (torch.corrcoef(x), x.corrcoef()),
    "of one variable": lambda x: (torch.cov(x[0]), torch.corrcoef(x[0]), torch.cov(x[:1])),
}


@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_one_entry_computes_it_for_all_sizes(name, dtype):
    traced = tracer.compile(COMPUTED[name], fullgraph=True)
    for size in (4, 7, 9, 30):
        x = torch.randn(size, size + 3).to(dtype)
        Comparison().same(COMPUTED[name](x), traced(x), "result")
    assert len(tracer.region_of(traced).entries()) <= 2


def test_a_covariance_has_the_gradient_that_torch_gives_it():
    captured(
        lambda x: torch.autograd.grad((torch.cov(x) ** 2).sum() + torch.corrcoef(x)[0, 1], x),
        torch.randn(3, 5, requires_grad=True),
    )
    captured(torch.cov, torch.randn(3, 5, dtype=torch.complex64))


LEFT = {
    "integers": lambda x: torch.cov((x * 9).long()),
    "weights": lambda x: torch.cov(x, fweights=torch.arange(1, 6)),
    "too few observations": lambda x: torch.cov(x[:, :1]),
    "three dims": lambda x: torch.cov(x.reshape(3, 5, 1)),
    "a correlation of complex numbers": lambda x: torch.corrcoef(x + 1j * x.flip(0)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LEFT)
def test_other_calls_are_left_to_torch(name):
    check(lambda x: (x + 1, LEFT[name](x)), torch.randn(3, 5))
