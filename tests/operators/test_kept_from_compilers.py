"""Operations around which a graph for a compiler is cut: seeds, draws from generators of the program, and settings that kernels
read."""

from __future__ import annotations

import pytest
import torch
from torch.utils._pytree import tree_leaves

import tracer
from tests.support.comparing import Comparison


def seeded_between_draws(x, w):
    before = torch.rand(3) + x
    torch.manual_seed(3)
    state = torch.get_rng_state()
    drawn = torch.rand(3) * w
    torch.set_rng_state(state)
    return before, drawn, torch.rand(3) * w - drawn, torch.rand(2)


def forked(x, w):
    with torch.random.fork_rng(devices=[]):
        y = torch.nn.functional.dropout(x * w, 0.5)
        torch.manual_seed(1)
        y = torch.nn.functional.dropout(y, 0.5)
    return torch.nn.functional.dropout(y, 0.25) * w


def sampled(x, w):
    generator = torch.Generator().manual_seed(5)
    found = []
    for _ in range(3):
        x = (x * w).softmax(-1)
        found.append(torch.multinomial(x, 1, generator=generator))
    return torch.stack(found) * 2, x, torch.bernoulli((x * w).sigmoid(), generator=generator)


def settings_in_the_middle(x, w):
    y = (x * w).sin()
    torch.use_deterministic_algorithms(True, warn_only=True)
    z = y.cumsum(0)
    seen = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(False)
    return y + z, seen, torch.are_deterministic_algorithms_enabled()


PROGRAMS = [seeded_between_draws, forked, sampled, settings_in_the_middle]


@pytest.fixture(autouse=True)
def settings():
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    yield
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_one_trace_holds_them_and_the_backend_gets_what_lies_between(fn):
    compiled_graphs = []

    def backend(gm, example_inputs):
        compiled_graphs.append([node for node in gm.graph.nodes if node.op.startswith("call")])
        return gm.forward

    for compiled in (tracer.compile(fn, backend="aot_eager"), tracer.compile(fn, backend=backend)):
        broken = tracer.counters["graph_break"].total()
        for seed in (1, 2):
            torch.manual_seed(seed)
            x, w = torch.rand(3), torch.rand(3, requires_grad=True)
            ours = w.detach().clone().requires_grad_()
            torch.manual_seed(seed)
            expected, left = fn(x, w), torch.get_rng_state()
            torch.manual_seed(seed)
            found = compiled(x.clone(), ours)
            assert torch.equal(torch.get_rng_state(), left)
            Comparison().same(expected, found, "result")
            for result, leaf in ((expected, w), (found, ours)):
                sum(each.sum() for each in tree_leaves(result) if getattr(each, "requires_grad", False)).backward()
                assert leaf.grad is not None
            assert torch.equal(w.grad, ours.grad)
        assert tracer.counters["graph_break"].total() == broken
        assert len(tracer.region_of(compiled).entries()) == 1
    names = {str(getattr(node.target, "__name__", node.target)) for nodes in compiled_graphs for node in nodes}
    assert len(compiled_graphs) > 1 and names & {"mul", "sin", "cumsum", "rand"}
    assert not names & {"manual_seed", "set_rng_state", "multinomial", "set_deterministic"}


def test_the_setting_holds_while_the_part_behind_it_is_compiled_and_runs():
    seen = []

    def backend(gm, example_inputs):
        seen.append(("compiled", torch.are_deterministic_algorithms_enabled()))

        def run(*args):
            seen.append(("run", torch.are_deterministic_algorithms_enabled()))
            return gm.forward(*args)

        return run

    def fn(x):
        y = x.sin()
        torch.use_deterministic_algorithms(True)
        return y.cos()

    compiled = tracer.compile(fn, backend=backend)
    for _ in range(2):
        torch.use_deterministic_algorithms(False)
        assert torch.equal(compiled(torch.ones(2)), torch.ones(2).sin().cos())
        assert torch.are_deterministic_algorithms_enabled()
    assert seen == [("compiled", False), ("compiled", True), *[("run", False), ("run", True)] * 2]
    assert len(tracer.region_of(compiled).entries()) == 1
    compiled(torch.ones(2))  # the setting is another one at the entry
    assert len(tracer.region_of(compiled).entries()) == 2


def test_in_a_graph_within_the_graph_they_break_it():
    seen = []

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            torch.use_deterministic_algorithms(True)
            y = x * 2
            torch.use_deterministic_algorithms(False)
            return y

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    def backend(gm, example_inputs):
        seen.extend(str(node.target) for module in gm.modules() for node in module.graph.nodes)
        return gm.forward

    compiled = tracer.compile(lambda x: Doubled.apply(x.sin()).cos(), backend=backend)
    x = torch.ones(2, requires_grad=True)
    assert torch.equal(compiled(x), (x.sin() * 2).cos())
    assert seen and not any("deterministic" in name for name in seen)
    assert not torch.are_deterministic_algorithms_enabled()


def test_where_the_graph_cannot_be_cut_it_breaks():
    def fn(x):
        y = x.clone()
        view = y[1:]
        for _ in range(10):
            y = y.add_(1)
        torch.use_deterministic_algorithms(True)
        for _ in range(10):
            view = view.mul_(2)
        torch.use_deterministic_algorithms(False)
        return y

    compiled = tracer.compile(fn, backend="aot_eager")
    broken = tracer.counters["graph_break"].total()
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(3)), fn(torch.ones(3)))
    assert tracer.counters["graph_break"].total() > broken
