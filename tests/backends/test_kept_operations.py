"""Operations whose results are not used still draw random numbers and raise, whatever the backend."""

from __future__ import annotations

import pytest
import torch
import torch._inductor.config as inductor
from torch._subclasses.fake_tensor import FakeTensor
from torch.testing._internal.two_tensor import TwoTensor

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


def overwrites_what_it_draws(x):
    torch.mul(x, 2, out=torch.nn.functional.dropout(x, 0.5))
    torch.rand_like(x).copy_(x)
    return x + 1


def replaces_what_it_draws(x):
    made = x * 2
    made.normal_()
    made.data = x
    return x + 1


def asks_how_the_drawn_lies(x):
    first, second = torch.rand_like(x), torch.relu(torch.randn(1, x.shape[0]))
    return x.view_as(first).reshape_as(second) + torch.zeros_like(torch.rand(1)) + second.size(1)


DRAWING = [
    draws_and_drops,
    writes_what_it_draws,
    overwrites_what_it_draws,
    replaces_what_it_draws,
    asks_how_the_drawn_lies,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", DRAWING)
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


def draws_in_a_branch(x):
    def drawing(y):
        torch.rand(3)
        return y.sin()

    return torch.cond(x.sum() > 3, drawing, torch.cos, (x,))


def draws_in_vain_under_vmap(x):
    return torch.vmap(lambda y: (torch.rand(3), y.sin())[1], randomness="different")(x)


class DrawsInVain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        torch.rand(3)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


@pytest.mark.parametrize("function", [draws_in_a_branch, draws_in_vain_under_vmap, lambda x: DrawsInVain.apply(x)])
def test_a_graph_that_calls_a_function_that_draws_in_vain_runs_as_it_is(function):
    made = tracer.compile(function, backend="aot_eager")
    with pytest.warns(UserWarning, match="which cannot compile it: the result of rand"):
        made(torch.ones(4, requires_grad=True))
    for given in (torch.ones(4, requires_grad=True), torch.zeros(4, requires_grad=True)):
        torch.manual_seed(0)
        expected, next_expected = function(given), torch.rand(1)
        torch.manual_seed(0)
        assert torch.equal(made(given), expected) and torch.equal(torch.rand(1), next_expected)


def sets_items(x, index):
    y, by_way = x.clone(), torch.zeros(4)
    y[index] = 0.0
    by_way[index] = 3.0
    by_way.index_add_(0, index, y[index] + 1)
    y.add_(by_way)
    return y * 2


@pytest.mark.filterwarnings("error:A graph of .* runs as it is")
def test_a_nested_function_that_sets_items_is_compiled():
    def f(x, index):
        return torch.cond(x.sum() > 0, sets_items, lambda x, index: x * 1.0, (x, index))

    made = tracer.compile(f, backend="aot_eager", fullgraph=True)
    for x in (torch.ones(4), -torch.ones(4)):
        assert torch.equal(made(x, torch.tensor([1, 2])), f(x, torch.tensor([1, 2])))


def test_of_a_wrapper_that_is_not_used_a_plain_tensor_is_kept():
    def program(x):
        y = x * 2
        TwoTensor(y.detach(), y.detach() * 3).sum(0, keepdim=True) @ torch.ones(3, 3)
        return y.sin()

    def backend(gm, example_inputs):
        kept.extend(type(node.meta["example_value"]) for node in gm.graph.output_node().args[0])
        return gm.forward

    kept: list[type] = []
    tracer.compile(program, backend=backend, fullgraph=True)(torch.ones(2, 3))
    assert len(kept) > 1 and set(kept) == {FakeTensor}
