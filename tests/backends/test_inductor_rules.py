"""Operators that Inductor alone computes something else for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch._inductor import config

import tracer

E, A, B = torch.randn(4, 8), torch.randn(4, 6), torch.randn(6, 8)

SUMS: dict[str, Callable[..., torch.Tensor]] = {
    "of a product, scaled": lambda e, a, b: e.mul(0.9).add(a @ b, alpha=0.1),
    "of a product, subtracted": lambda e, a, b: torch.add(e, a @ b, alpha=-1),
    "to a product": lambda e, a, b: (a @ b).add(e, alpha=2),
    "in place": lambda e, a, b: e.clone().mul_(0.9).add_(a @ b, alpha=0.1),
    "of ints and floats": lambda e, a, b: e.double().add(torch.ones(8, dtype=torch.int64), alpha=0.1),
    "of complex numbers": lambda e, a, b: (e + 1j).add(e * 1j, alpha=2),
}


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_keeps_its_factor(name: str) -> None:
    def scaled(e: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return SUMS[name](e, a, b)

    traced = tracer.compile(scaled, backend="inductor", fullgraph=True)
    torch.testing.assert_close(traced(E, A, B), scaled(E, A, B))


def test_a_sum_has_the_gradients_that_its_factor_gives() -> None:
    found = []
    for run in (SUMS["of a product, scaled"], tracer.compile(SUMS["of a product, scaled"], backend="inductor")):
        leaves = [each.clone().requires_grad_() for each in (E, A, B)]
        run(*leaves).sum().backward()
        found.append([leaf.grad for leaf in leaves])
    torch.testing.assert_close(*found)


@config.patch(fallback_random=True)
def test_rows_are_shuffled_as_in_eager() -> None:
    def shuffled(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        order = torch.randperm(x.shape[0])
        return x[order], order, x[torch.randperm(x.shape[0])[:2]]

    traced = tracer.compile(shuffled, backend="inductor", fullgraph=True)
    for rows in (3, 4, 5):
        x, found = torch.arange(2.0 * rows).view(rows, 2), []
        for run in (shuffled, traced):
            torch.manual_seed(rows)
            found.append((*run(x), torch.get_rng_state()))
        torch.testing.assert_close(*found)
