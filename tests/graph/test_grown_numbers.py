"""Numbers whose expressions double with each step of a loop become constants before they grow too large."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.support import check_made
from tracer.graph.fakes.fake_tensors import FakeWorld
from tracer.graph.symbols.shape_env_adapter import MOST_FUNCTIONS
from tracer.sources.roots import LocalSource

X = torch.arange(3.0)
STEPS = 40  # each of which doubles the expression


def of_an_int(x, n):
    for i in range(STEPS):
        n = (n + min(5, n * 3 % (1009 - i))) % (2009 - i)
    return x + n


def of_a_float(x, f):
    for _ in range(STEPS):
        f = (f * f + f) % 7.5
    return x * f


def of_a_size(x):
    n = x.shape[0]
    for i in range(STEPS):
        n = max(n // 2, n % (97 + i)) + 3
        if n > 10_000:
            return x
    return x.sum() * n


@pytest.mark.parametrize("backend", ["eager", lambda gm, inputs: gm])
@pytest.mark.parametrize("fn, values", [(of_an_int, (5, 5, 9)), (of_a_float, (1.5, 2.5, 3.5))])
def test_a_number_that_doubles_at_each_step_is_traced_in_no_time(fn, values, backend):
    compiled = tracer.optimize(backend, dynamic=True, fullgraph=True)(fn)
    for value in values:
        assert torch.equal(compiled(X, value), fn(X, value))


def test_a_size_that_doubles_at_each_step_is_traced_in_no_time():
    check_made(of_a_size, lambda: ((torch.ones(7),), {}), dynamic=True)


def test_a_grown_number_becomes_a_constant_that_a_guard_vouches_for():
    world = FakeWorld()
    n = start = world.fakify(torch.ones(7), LocalSource("x")).shape[0]
    steps = 0
    while isinstance(n, torch.SymInt):
        n, steps = (n + torch.sym_min(5, n * 3 % (1009 - steps))) % (2009 - steps), steps + 1
    assert type(n) is int and 4 < steps < 20
    (guard,) = [guard for guard in world.env.guards if guard.expr.functions]
    assert guard.expr.functions <= 2 * MOST_FUNCTIONS + 2
    assert isinstance(start, torch.SymInt)
