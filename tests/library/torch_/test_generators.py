"""`torch.Generator`: what is drawn with a generator of the program's own."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.support import breaks, check
from tests.support.comparing import Comparison

DRAWS = {
    "rand": lambda x, g: torch.rand(*x.shape, generator=g),
    "rand of a shape": lambda x, g: torch.rand(x.shape, generator=g, dtype=torch.float64),
    "randn": lambda x, g: torch.randn((2, x.shape[0]), generator=g, device="cpu", layout=torch.strided),
    "randint": lambda x, g: torch.randint(10, (x.shape[0] * 2,), generator=g),
    "randint between": lambda x, g: torch.randint(3, 9, size=x.shape, generator=g),
    "normal": lambda x, g: torch.normal(1.0, 2.0, size=(x.shape[0], 3), generator=g),
    "randperm": lambda x, g: torch.randperm(x.shape[0], generator=g),
    "normal_": lambda x, g: torch.empty_like(x).normal_(1.0, std=2.0, generator=g),
    "normal_ of many": lambda x, g: torch.empty(x.shape[0], 9, dtype=torch.float16).normal_(generator=g),
    "uniform_": lambda x, g: x.uniform_(-1, 1, generator=g),
    "exponential_": lambda x, g: (torch.zeros(x.shape[0]).exponential_(generator=g), x[1:].log_normal_(generator=g)),
    "random_": lambda x, g: torch.zeros(x.shape[0], dtype=torch.int64).random_(3, 9, generator=g),
    "bernoulli_": lambda x, g: (x.bernoulli_(0.25, generator=g), x.cauchy_(generator=g).geometric_(0.5, generator=g)),
    "initialised": lambda x, g: torch.nn.init.xavier_uniform_(torch.empty(3, 4), generator=g),
}


def check_draws(fn, columns):
    """`fn(x, generator)` draws what it does as written, for any number of rows, and leaves the generator in the same state."""
    traced = tracer.compile(fn, fullgraph=True)
    mine, plain = torch.Generator().manual_seed(4), torch.Generator().manual_seed(4)
    for size in (3, 5, 7, 9):
        x = torch.randn(size, columns)
        Comparison().same(fn(x, plain), traced(x, mine), "result")
        assert torch.equal(mine.get_state(), plain.get_state())
    assert len(tracer.region_of(traced).entries()) <= 2


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_draw_with_a_generator_of_ones_own(draw):
    def fn(x, generator):
        torch.rand(1, generator=generator)  # unused, but it moves the generator on
        first = draw(x, generator)
        return x * 2, first, draw(x, generator)

    check_draws(fn, columns=2)


def test_another_generator_has_the_same_entry():
    traced = tracer.compile(_rand, fullgraph=True)
    for seed in (1, 2):
        mine, plain = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(seed)
        Comparison().same(_rand(torch.ones(2), plain), traced(torch.ones(2), mine), "result")
    assert len(tracer.region_of(traced).entries()) == 1


def _rand(x, generator):
    return x + torch.rand(2, generator=generator)


def test_a_generator_made_in_the_trace():
    def fn(x):
        generator = torch.Generator().manual_seed(3)
        noise = torch.randn(x.shape, generator=generator)
        generator.manual_seed(5)
        return x + noise, torch.randn(3, generator=generator), x.mul_(2)

    check(fn, torch.ones(4))


def test_a_result_may_be_written_to_and_differentiated():
    def fn(x, seed):
        noise = torch.rand(3, generator=torch.Generator().manual_seed(seed))
        noise.mul_(x.detach())
        return (noise * x).sum()

    check(fn, torch.randn(3, requires_grad=True), 4)


def test_the_default_generator_keeps_its_order():
    def fn(x, generator):
        return torch.rand(2), torch.rand(2, generator=generator), torch.rand(2)

    traced = tracer.compile(fn)
    for generator in (torch.Generator().manual_seed(1), torch.default_generator):
        torch.manual_seed(0)
        generator.manual_seed(2)
        expected = fn(None, generator)
        torch.manual_seed(0)
        generator.manual_seed(2)
        Comparison().same(expected, traced(None, generator), "result")


BY_DATA = {
    "multinomial": lambda x, g: torch.multinomial(x.softmax(-1), 1, generator=g),
    "multinomial of rows": lambda x, g: torch.multinomial(x.exp(), num_samples=4, replacement=True, generator=g),
    "bernoulli": lambda x, g: torch.bernoulli(x.sigmoid(), generator=g),
    "poisson": lambda x, g: torch.poisson(x.exp(), generator=g),
    "methods": lambda x, g: (x.exp().multinomial(2, generator=g), x.sigmoid().bernoulli(generator=g)),
}


@pytest.mark.parametrize("draw", BY_DATA.values(), ids=BY_DATA)
def test_what_depends_on_data_is_drawn_in_the_graph(draw):
    def fn(x, generator):
        noise = torch.rand(2, generator=generator)
        first = draw(x, generator)
        return noise, first, draw(x * 2, generator)

    check_draws(fn, columns=6)


def test_draws_behind_one_by_data_keep_their_order():
    def fn(x, generator, other):
        first = torch.multinomial(x, 1, generator=generator)
        second = torch.rand(2, generator=other), torch.multinomial(x, 1, generator=other)
        return first, second, torch.rand(2, generator=generator), torch.bernoulli(x / 9, generator=generator)

    traced = tracer.compile(fn)
    generators = [torch.Generator().manual_seed(seed) for seed in (1, 2, 1, 2)]
    one = torch.Generator().manual_seed(3)
    for _ in range(2):
        x = torch.rand(4)
        Comparison().same(fn(x, *generators[:2]), traced(x, *generators[2:]), "result")
        state = one.get_state()
        expected = fn(x, one, one)
        one.set_state(state)
        Comparison().same(expected, traced(x, one, one), "result")
    assert torch.equal(generators[0].get_state(), generators[2].get_state())


def test_a_graph_that_raises_leaves_the_generator_as_cpython_leaves_it():
    def fn(x, generator):
        first = torch.multinomial(x, 1, generator=generator)
        return first, torch.multinomial(x - 1, 1, generator=generator)

    traced = tracer.compile(fn)
    mine, plain = torch.Generator().manual_seed(4), torch.Generator().manual_seed(4)
    for function, generator in ((fn, plain), (traced, mine)):
        with pytest.raises(RuntimeError, match="probability"):
            function(torch.tensor([0.5, 0.25]), generator)
    assert torch.equal(mine.get_state(), plain.get_state())


def test_a_generator_made_in_the_trace_draws_by_data():
    def fn(x, seed):
        generator = torch.Generator().manual_seed(seed)
        return torch.bernoulli(x, generator=generator) + 1, torch.bernoulli(x, generator=generator), x * 2

    check(fn, torch.tensor([0.25, 0.5]), 3)


def test_compilers_leave_draws_by_data_to_cpython():
    def fn(x, generator):
        return torch.bernoulli(x, generator=generator) + 1

    traced = tracer.compile(fn, backend="aot_eager")
    for seed in (1, 2):
        x = torch.tensor([0.25, 0.5])
        expected = fn(x, torch.Generator().manual_seed(seed))
        assert torch.equal(traced(x, torch.Generator().manual_seed(seed)), expected)


NOT_AS_FRESH = {
    "not contiguous": lambda x, g: x.t().normal_(generator=g),
    "with a gradient": lambda x, g: (x * 1).requires_grad_().mul(2).normal_(generator=g),
    "of a tensor": lambda x, g: x.bernoulli_(x.abs().clamp(0, 1), generator=g),
    "the default one": lambda x, g: x.normal_(generator=torch.default_generator),
}


@pytest.mark.parametrize("fill", NOT_AS_FRESH.values(), ids=NOT_AS_FRESH)
def test_a_tensor_that_is_not_filled_as_a_new_one_breaks(fill):
    breaks(lambda x, seed: fill(x, torch.Generator().manual_seed(seed)), torch.randn(3, 5), 3)


RAISING = {
    "randint": lambda n, g: torch.randint(0, 300, (n,), generator=g, dtype=torch.uint8),
    "normal": lambda n, g: torch.normal(0.0, -1.0, (n,), generator=g),
    "randperm": lambda n, g: torch.randperm(n * 100, generator=g, dtype=torch.uint8),
    "manual_seed": lambda n, g: g.manual_seed(2**70),
}


@pytest.mark.parametrize("draw", RAISING.values(), ids=RAISING)
def test_a_draw_that_raises_raises_at_its_own_line(draw):
    def fn(x, generator, said):
        first = torch.rand(2, generator=generator)
        said.append("drawn")
        try:
            draw(x.shape[0], generator)
        except (RuntimeError, ValueError) as error:
            said.append(str(error))
        return x + 1, first, torch.rand(2, generator=generator)

    traced = tracer.compile(fn)
    mine, plain = torch.Generator().manual_seed(4), torch.Generator().manual_seed(4)
    for size in (2, 3, 4):
        expected_said, said = [], []
        expected = fn(torch.ones(size), plain, expected_said)
        Comparison().same(expected, traced(torch.ones(size), mine, said), "result")
        assert said == expected_said
        assert torch.equal(mine.get_state(), plain.get_state())
