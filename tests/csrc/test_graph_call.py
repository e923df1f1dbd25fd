"""Entries that come down to a call of their graph: it is called without the code around it."""

from __future__ import annotations

import functools
import gc
import sys
import types

import pytest
import torch
from torch.utils import checkpoint

import tracer
from tracer import _C, exc


class Holder:
    pass


def noting(callers, broken=False):
    """A backend whose graph notes what function calls it."""

    def backend(gm, _):
        def graph(*inputs):
            callers.append(sys._getframe(1).f_code.co_name)
            if broken:
                raise KeyError("the graph is broken")
            return gm.forward(*inputs)

        return graph

    return backend


def scaled(x, holder):
    return x * holder.weight


def make_holder():
    holder = Holder()
    holder.weight = torch.full((3,), 2.0)
    return holder


def test_no_frame_stands_between_the_call_and_its_graph():
    callers = []
    compiled, x, holder = tracer.compile(scaled, backend=noting(callers)), torch.ones(3), make_holder()
    for _ in range(3):
        assert torch.equal(compiled(x, holder), torch.full((3,), 2.0))
    assert callers[1:] == ["test_no_frame_stands_between_the_call_and_its_graph"] * 2


@pytest.mark.parametrize("count", [20, 300])
def test_no_frame_stands_between_where_there_are_many_parameters_behind_an_argument(count):
    callers, model = [], torch.nn.Sequential(*[torch.nn.ReLU() if i % 2 else torch.nn.PReLU() for i in range(2 * count)])
    compiled, x = tracer.compile(model, backend=noting(callers)), torch.tensor([-4.0, 1.0])
    for _ in range(3):
        assert torch.equal(compiled(x), model(x))
    assert len(callers) == 3 and "forward" not in callers[1:]
    with torch.no_grad():
        model[0].weight.fill_(2.0)
    assert torch.equal(compiled(x), model(x)) and len(callers) == 4


def test_what_is_done_behind_the_graph_is_done():
    def f(x, seen):
        y = x + 1
        seen.append(y)
        return y

    callers, seen = [], []
    compiled = tracer.compile(f, backend=noting(callers))
    results = [compiled(torch.ones(3), seen) for _ in range(3)]
    assert callers == ["f"] * 3 and all(a is b for a, b in zip(results, seen, strict=True))


def test_where_the_graph_raises_the_program_itself_runs():
    callers = []
    compiled, x, holder = tracer.compile(scaled, backend=noting(callers, broken=True)), torch.ones(3), make_holder()
    for _ in range(3):
        assert torch.equal(compiled(x, holder), torch.full((3,), 2.0))
    assert len(callers) == 3


def test_an_error_of_the_graph_is_raised_at_the_line_of_the_program():
    def f(x, index, shift=1):
        return x[index] + shift

    compiled, x = tracer.compile(f), torch.ones(3)
    assert torch.equal(compiled(x, torch.tensor([0, 2])), torch.full((2,), 2.0))
    for _ in range(2):
        with pytest.raises(IndexError) as raised:
            compiled(x, torch.tensor([0, 5]))
        assert raised.traceback[-1].name == "f" and raised.traceback[-1].lineno + 1 == f.__code__.co_firstlineno + 1
        assert [entry.name for entry in raised.traceback].count("f") == 1


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(), checkpoint._StopRecomputationError(), exc.BackendCompilerFailed("mine", "wrong")]
)
@pytest.mark.parametrize("plain", [True, False], ids=["no frame between", "output code"])
def test_what_ends_the_program_or_a_recomputation_or_says_something_of_the_graph_goes_on(error, plain):
    runs = []

    def program(x):
        runs.append(1)
        return x * 2

    def without_effects(x):
        return x * 2

    def backend(gm, inputs):
        def graph(*args):
            raise error

        return graph

    compiled = tracer.compile(without_effects if plain else program, backend=backend)
    with pytest.raises(type(error)):
        compiled(torch.ones(2))
    assert not runs and not _C.is_failure(error) and _C.is_failure(ValueError())


def test_a_closure_reaches_the_program_where_the_graph_raises():
    weight = torch.full((3,), 2.0)

    def f(x):
        return x * weight

    compiled = tracer.compile(f, backend=noting([], broken=True))
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 2.0))


def test_inputs_live_as_long_as_a_graph_that_is_no_function():
    class Graph:
        def __init__(self, forward, holder):
            self.forward, self.holder = forward, holder

        def __call__(self, *inputs):
            self.holder.weight = None
            del self.holder
            gc.collect()
            return self.forward(*inputs)

    holder = make_holder()
    graphs = []

    def backend(gm, _):
        graphs.append(Graph(gm.forward, holder))
        return functools.partial(Graph.__call__, graphs[0])

    compiled = tracer.compile(scaled, backend=backend)
    for _ in range(3):
        holder.weight = torch.full((3,), 2.0)
        if graphs:
            graphs[0].holder = holder
        assert torch.equal(compiled(torch.ones(3), holder), torch.full((3,), 2.0))


def test_methods_of_all_kinds_of_callables_get_their_object_first():
    class Calling:
        def __call__(self, *arguments):
            return forward(*arguments)

    def forward(gm, *inputs):
        return gm.forward(*inputs)

    for function in (forward, functools.partial(forward), Calling()):
        compiled = tracer.compile(scaled, backend=lambda gm, _, function=function: types.MethodType(function, gm))
        for _ in range(3):
            assert torch.equal(compiled(torch.ones(3), make_holder()), torch.full((3,), 2.0))


def test_results_that_are_no_tuple_are_indexed():
    compiled = tracer.compile(scaled, backend=lambda gm, _: lambda *inputs: list(gm.forward(*inputs)))
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(3), make_holder()), torch.full((3,), 2.0))


def test_no_reference_is_lost_or_kept():
    compiled, x, holder = tracer.compile(scaled), torch.ones(3), make_holder()
    compiled(x, holder)
    before = sys.getrefcount(x), sys.getrefcount(holder.weight), sys.getrefcount(holder)
    for _ in range(1000):
        compiled(x, holder)
    assert (sys.getrefcount(x), sys.getrefcount(holder.weight), sys.getrefcount(holder)) == before
