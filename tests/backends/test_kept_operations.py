"""Operations whose results are not used still draw random numbers and raise, whatever the backend."""

from __future__ import annotations

import pytest
import torch
import torch._inductor.config as inductor

import tracer

BACKENDS = ["aot_eager", pytest.param("inductor", marks=pytest.mark.full)]


@pytest.fixture(autouse=True)
def drawn_as_in_eager():
    with inductor.patch(fallback_random=True):
        yield


def draws_and_drops(x):
    torch.rand(3)
    y = x * 2
    torch.nn.functional.dropout(y, 0.5)
    torch.empty(2).normal_()
    torch.randn(2, 3).sort()
    return y


def writes_what_it_draws(x):
    made = x.clone()
    made.uniform_()
    x.add_(torch.rand_like(x))
    return made


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [draws_and_drops, writes_what_it_draws])
def test_as_many_random_numbers_are_drawn_as_in_eager(function, backend):
    made = tracer.compile(function, backend=backend, fullgraph=True)
    for size in (4, 5, 6):
        given = torch.randn(size)
        torch.manual_seed(0)
        expected, next_expected = function(left := given.clone()), torch.rand(1)
        torch.manual_seed(0)
        seen, next_seen = made(right := given.clone()), torch.rand(1)
        assert torch.equal(seen, expected) and torch.equal(left, right) and torch.equal(next_seen, next_expected)


def looks_up_and_drops(x, first, second):
    x.add_(1)
    x[first]
    x.add_(5)
    return x * 2


def looks_up_twice(x, first, second):
    x[first]
    torch.gather(x, 0, second)
    return x * 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", [looks_up_and_drops, looks_up_twice])
def test_a_lookup_whose_result_is_not_used_raises_as_in_eager(function, backend):
    made = tracer.compile(function, backend=backend)
    inside, outside = torch.tensor([1]), torch.tensor([7])
    assert torch.equal(made(torch.ones(4), inside, inside), function(torch.ones(4), inside, inside))
    first, given, expected = outside if function is looks_up_and_drops else inside, torch.ones(4), torch.ones(4)
    for call, x in ((made, given), (function, expected)):
        with pytest.raises((IndexError, RuntimeError), match="out of"):
            call(x, first, outside)
    assert torch.equal(given, expected)


def test_gradients_are_those_of_eager_where_a_value_is_drawn_in_vain():
    def f(x):
        torch.nn.functional.dropout(x * 3, 0.5)
        return (x * x).sum()

    x = torch.randn(3, requires_grad=True)
    tracer.compile(f, backend="aot_eager", fullgraph=True)(x).backward()
    assert torch.equal(x.grad, 2 * x.detach())
