"""What sets and reads the state of torch's own random numbers: seeds, states, `fork_rng`."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import dropout

import tracer
from tests.support.comparing import Comparison

X = torch.arange(6.0).reshape(2, 3)


def seeded_first(x):
    torch.manual_seed(3)
    return x + torch.rand(3), dropout(x)


def seeded_last(x):
    y = dropout(x) + torch.rand(3)
    torch.manual_seed(4)
    torch.cuda.manual_seed_all(4)
    return y


def seeded_between(x):
    first = torch.rand(3)
    torch.manual_seed(3)
    return x + first, torch.rand(3)


def state_restored_last(x):
    state = torch.get_rng_state()
    y = torch.rand(3)
    torch.set_rng_state(state)
    return x + y


def state_restored_twice(x):
    state = torch.get_rng_state()
    first = torch.rand(3)
    torch.set_rng_state(state)
    second = torch.rand(3)
    later = torch.get_rng_state()
    third = torch.randn(3)
    torch.set_rng_state(later)
    return x + first - second, third - torch.randn(3), state


def forked(x):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        noise = torch.rand(3)
    return x + noise


def forked_and_drawn(x):
    with torch.random.fork_rng(devices=[]):
        noise = torch.rand(3)
    return x + noise, torch.rand(3)


def nothing_but_a_seed(x):
    torch.manual_seed(5)
    return x


def _compare(fn, run):
    ends = []
    for each in (fn, run):
        torch.manual_seed(11)
        ends.append([each(X), torch.rand(2), each(X), torch.rand(2)])
    Comparison().same(*ends, "results and what is drawn behind them")


ALL = (
    seeded_first,
    seeded_last,
    seeded_between,
    state_restored_last,
    state_restored_twice,
    forked,
    forked_and_drawn,
    nothing_but_a_seed,
)


@pytest.mark.parametrize("fn", ALL)
def test_seeds_and_states_are_in_a_graph_that_runs_as_written(fn):
    _compare(fn, tracer.compile(fn, fullgraph=True))


@pytest.mark.parametrize("fn", [seeded_first, seeded_last, state_restored_last, forked, nothing_but_a_seed])
def test_a_compiled_graph_has_them_before_or_behind_what_draws(fn):
    _compare(fn, tracer.compile(fn, backend="aot_eager", fullgraph=True))


@pytest.mark.parametrize("fn", [seeded_between, state_restored_twice, forked_and_drawn])
def test_between_draws_a_graph_for_a_compiler_is_cut_at_them(fn):
    _compare(fn, tracer.compile(fn, backend="aot_eager", fullgraph=True))


def test_a_graph_that_fails_leaves_the_state_that_the_program_leaves():
    def fn(x, index):
        state = torch.get_rng_state()
        torch.manual_seed(3)
        picked = x[index] + torch.rand(1)
        torch.set_rng_state(state)
        return picked

    run = tracer.compile(fn, fullgraph=True)
    run(X, torch.tensor([1]))
    seen = []
    for each in (fn, run):
        torch.manual_seed(7)
        with pytest.raises(IndexError):
            each(X, torch.tensor([9]))
        seen.append(torch.rand(2))
    assert torch.equal(*seen)


def test_what_the_program_draws_by_an_operator_of_its_own_stays_behind_the_seed():
    @torch.library.custom_op("seeds_test::noise", mutates_args=())
    def noise(x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand(3)

    @noise.register_fake
    def _(x):
        return torch.empty_like(x)

    def fn(x):
        y = noise(x)
        torch.manual_seed(2)
        return y, noise(x)

    for backend in ("eager", "aot_eager"):
        _compare(fn, tracer.compile(fn, backend=backend))


def test_what_draws_behind_a_seed_is_in_the_next_graph():
    graphs = []

    def backend(graph, inputs):
        graphs.append([node for node in graph.graph.nodes if node.target is torch.rand])
        return graph.forward

    _compare(seeded_between, tracer.compile(seeded_between, backend=backend))
    assert list(map(len, graphs)) == [1, 1]
