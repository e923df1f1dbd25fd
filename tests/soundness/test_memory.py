"""Warm calls, and recompiles followed by resets, leave memory flat within 5 MB."""

from __future__ import annotations

import gc
import linecache
import weakref
from collections.abc import Callable

import pytest
import torch
from torch.fx import graph_module as fx_graph_module

import tracer
from tests.support.graphs import Graphs
from tracer.api.settings import region_of

MOST_GROWTH = 5 * 2**20
X = torch.randn(3)


def resident() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def growth(step: Callable[[int], object], count: int) -> int:
    """Bytes that `count` steps leave behind, after as many as it takes to fill what is filled once."""
    for n in range(max(count // 5, 1)):
        step(n)
    gc.collect()
    before = resident()
    for n in range(count):
        step(n)
    gc.collect()
    return resident() - before


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x).relu() * 2


def broken(x):
    y = x * 2
    print(end="")
    return y + 1


def warm_calls() -> dict[str, Callable[[int], object]]:
    plain = tracer.optimize()(lambda x: x * 2 + 1)
    module = tracer.optimize()(Model())
    breaking = tracer.optimize()(broken)
    dynamic = tracer.optimize(dynamic=True)(lambda x, n=2: x * n)
    sizes = [torch.randn(size) for size in range(2, 12)]
    return {
        "plain": lambda n: plain(X),
        "module": lambda n: module(X),
        "breaking": lambda n: breaking(X),
        "dynamic, with keywords": lambda n: dynamic(sizes[n % 10], n=n % 7 + 2),
    }


@pytest.mark.parametrize("name", ["plain", "module", "breaking", "dynamic, with keywords"])
def test_warm_calls(name):
    assert growth(warm_calls()[name], 5_000) < MOST_GROWTH


@pytest.mark.full
def test_a_million_warm_calls():
    for step in warm_calls().values():
        assert growth(step, 1_000_000) < MOST_GROWTH


def recompile_and_reset(n: int) -> None:
    compiled = tracer.optimize()(lambda x, word: (x * len(word)).relu() + n)
    for word in ("a", "bb"):
        compiled(X, word)
    tracer.reset()
    compiled(X, "a")


def trained_and_dropped(n: int) -> None:
    compiled = tracer.optimize()(Model())
    compiled(X).sum().backward()


def broken_and_reset(n: int) -> None:
    compiled = tracer.optimize()(lambda x: broken(x) * n)
    compiled(X)
    tracer.reset()


STEPS = [recompile_and_reset, trained_and_dropped, broken_and_reset]


@pytest.mark.parametrize("step", STEPS)
def test_recompiles_and_resets(step):
    assert growth(step, 40) < MOST_GROWTH


@pytest.mark.full
@pytest.mark.parametrize("step", STEPS)
def test_a_thousand_recompiles_and_resets(step):
    assert growth(step, 1_000) < MOST_GROWTH


def test_the_source_of_a_generated_forward_goes_with_its_entry():
    sources = fx_graph_module._loader.eval_cache
    gc.collect()
    before = set(sources)
    compiled = tracer.optimize()(lambda x: x * 2 + 1)
    compiled(X)
    made = set(sources) - before
    assert made
    tracer.reset()
    gc.collect()
    assert not made & set(sources) and not made & set(linecache.cache)


def test_a_traceback_through_a_graph_still_shows_its_source():
    graphs = Graphs()
    compiled = tracer.optimize(graphs.backend)(lambda x: x * 2)
    compiled(X)
    code = type(graphs[0]).forward.__code__
    assert "l_x_" in "".join(linecache.getlines(code.co_filename))


# -- what a frame drops behind a graph break dies at once --------------------------------------------------------------


def _alive_at_each_step(made: list[weakref.ref[torch.Tensor]], counts: list[int], x: torch.Tensor) -> None:
    made.append(weakref.ref(x))
    counts.append(sum(ref() is not None for ref in made))
    print(end="")


@pytest.mark.parametrize("loop", [False, True])
def test_what_a_frame_drops_behind_a_graph_break_dies_at_once(loop):
    made: list[weakref.ref[torch.Tensor]] = []
    counts: list[int] = []

    def in_a_row(x):
        x = x + 1
        _alive_at_each_step(made, counts, x)
        x = x * 2
        _alive_at_each_step(made, counts, x)
        x = x - 3
        _alive_at_each_step(made, counts, x)
        return x

    def in_a_loop(x):
        for n in range(5):
            x = x + n
            _alive_at_each_step(made, counts, x)
        return x

    fn = in_a_loop if loop else in_a_row
    traced = tracer.compile(fn, backend="eager")
    for _ in range(3):
        made.clear()
        counts.clear()
        assert torch.equal(traced(X), fn(X))
        assert set(counts[: len(counts) // 2]) == {1}


def test_a_frame_inlined_keeps_what_its_caller_holds_and_drops_what_it_drops_itself():
    made: list[weakref.ref[torch.Tensor]] = []
    counts: list[int] = []

    def inner(x):
        for n in range(4):
            x = x + n
            _alive_at_each_step(made, counts, x)
        return x

    def outer(x):
        held = x + 1
        made.append(weakref.ref(held))
        return inner(held * 2) + held

    traced = tracer.compile(outer, backend="eager")
    traced(X)
    made.clear()
    counts.clear()
    assert torch.equal(traced(X), outer(X))
    assert counts[:4] == counts[4:8]


@pytest.mark.parametrize("breaks", [False, True])
def test_what_was_learnt_and_compiled_of_code_goes_with_it(breaks):
    @tracer.disable(recursive=False)
    def calls(function, x):
        return function(x)

    compiled = tracer.optimize()(lambda function, x: calls(function, x * 2))
    state = region_of(compiled)
    sizes = set()
    for n in range(4):
        namespace = {"tracer": tracer}
        broken = "tracer.graph_break()" if breaks else "pass"
        exec(compile(f"def made(x):\n    y = x * {n}\n    {broken}\n    return y + 1", f"<made {n}>", "exec"), namespace)
        function = namespace.pop("made")  # which its globals, and an entry with them, would keep
        assert torch.equal(compiled(function, X), X * 2 * n + 1)
        assert function.__code__ in state.frame_states
        sizes.add((len(state.frame_states), len(state.resumes), len(state.entries())))
        gone = weakref.ref(function.__code__)
        del function
        gc.collect()
        assert gone() is None
    assert len(sizes) == 1
