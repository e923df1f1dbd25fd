"""A function that is given to torch.compile again, with the same settings, goes on with the entries that it has."""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import weakref

import pytest
import torch

import tracer
from tests.support.graphs import Graphs

pytestmark = pytest.mark.usefixtures("installed")
X = torch.ones(3)


def doubled(x):
    return x * 2


def made():
    """A function of its own, though its code is that of others."""

    def fn(x):
        return torch.sin(x) + 1

    return fn


def test_a_function_that_is_compiled_at_each_call_is_compiled_once():
    graphs, fn = Graphs(), made()
    for _ in range(5):
        assert torch.equal(torch.compile(fn, backend=graphs.backend)(X), fn(X))
    assert len(graphs) == 1


def test_what_was_learnt_of_sizes_and_the_recompile_limit_hold_for_all():
    graphs, fn = Graphs(), made()
    for size in (3, 4, 5, 6):
        torch.compile(fn, backend=graphs.backend)(torch.ones(size))
    assert len(graphs) == 2
    with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
        for size in range(1, 40):
            with torch._dynamo.config.patch(fail_on_recompile_limit_hit=True):
                torch.compile(fn, backend=graphs.backend, dynamic=False)(torch.ones(size))


def test_other_settings_make_other_entries():
    graphs, others, fn = Graphs(), Graphs(), made()
    for settings in ({}, {"dynamic": True}, {"fullgraph": True}, {}, {"fullgraph": True}):
        torch.compile(fn, backend=graphs.backend, **settings)(X)
    torch.compile(fn, backend=others.backend)(X)
    assert (len(graphs), len(others)) == (3, 1)
    with torch._dynamo.config.patch(specialize_float=True):
        torch.compile(fn, backend=graphs.backend)(X)
    assert len(graphs) == 4


def test_results_that_isolate_their_recompiles_share_nothing():
    graphs, fn = Graphs(), made()
    for _ in range(2):
        torch.compile(fn, backend=graphs.backend, isolate_recompiles=True)(X)
    assert len(graphs) == 2


def test_each_result_is_an_object_of_its_own():
    fn = made()
    first, second = (torch.compile(fn, backend="eager") for _ in range(2))
    first.note = 1
    assert first is not second and not hasattr(second, "note")


def closure(value, default=1.0):
    def fn(x, scale=default):
        held = value(x) if callable(value) else value
        return x * scale + held

    return fn


LINEAR = [torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)]
VALUES = {
    "tensors": ([torch.ones(3), torch.zeros(3), torch.full((3,), 2.0)], 1),
    "tensors of other sizes": ([torch.ones(3), torch.ones(1)], 2),
    "ints": ([5, 5, 7], 2),
    "texts of functions": ([torch.sin, torch.cos, torch.sin], 2),
    "modules": (LINEAR, 1),
    "a module and a function": ([LINEAR[0], torch.sin], 2),
}


@pytest.mark.parametrize("name", VALUES)
def test_functions_with_the_same_code_share_what_their_guards_allow(name):
    values, most = VALUES[name]
    graphs, alive = Graphs(), []
    for value in values:
        alive.append(torch.compile(closure(value), backend=graphs.backend))
        for x in (X, X * 2):
            assert torch.equal(alive[-1](x), closure(value)(x))
    assert len(graphs) == most


def test_defaults_and_results_belong_to_each_function():
    graphs = Graphs()
    compiled = [torch.compile(closure(1.0, default), backend=graphs.backend) for default in (2.0, 3.0, 2.0)]
    assert [each(X).tolist() for each in compiled] == [[3.0] * 3, [4.0] * 3, [3.0] * 3]


def test_what_a_function_writes_to_its_cells_stays_with_it():
    def maker(count):
        def fn(x):
            nonlocal count
            count += 1
            return x * count, count

        return fn

    starts = (1, 1, 5, 7)
    expected = [maker(start) for start in starts]
    seen = [torch.compile(maker(start), backend="eager") for start in starts]
    for _ in range(3):
        for wanted, got in zip(expected, seen, strict=True):
            (product, count), (same, counted) = wanted(X), got(X)
            assert torch.equal(product, same) and count == counted


def test_closures_behind_a_graph_break_share_too():
    def maker(value):
        def fn(x):
            y = x + value
            torch._dynamo.graph_break()
            return y * value

        return fn

    graphs = Graphs()
    compiled = [torch.compile(maker(torch.full((3,), float(number))), backend=graphs.backend) for number in range(3)]
    assert [each(X).tolist() for each in compiled] == [[0.0] * 3, [2.0] * 3, [6.0] * 3]
    assert len(graphs) == 2


def test_a_wrapper_does_not_take_the_entries_of_what_it_wraps():
    graphs, fn = Graphs(), made()
    torch.compile(fn, backend=graphs.backend)(X)

    @functools.wraps(fn)
    def wrapper(x):
        return fn(x) * 3

    assert torch.equal(torch.compile(wrapper, backend=graphs.backend)(X), fn(X) * 3)
    assert torch.equal(torch.compile(fn, backend=graphs.backend)(X), fn(X)) and len(graphs) == 2


def test_a_reset_and_a_seal_end_it():
    graphs, fn = Graphs(), made()
    sealed = torch.compile(fn, backend=graphs.backend)
    sealed(X)
    torch._dynamo.reset()
    torch.compile(fn, backend=graphs.backend)(X)
    assert len(graphs) == 2
    sealed.seal(on_miss="error")
    torch.compile(fn, backend=graphs.backend)(torch.ones(7))
    assert len(graphs) == 3


def test_what_was_compiled_goes_with_the_function():
    fn = made()
    region = weakref.ref(tracer.region_of(torch.compile(fn, backend="eager")))
    torch.compile(fn, backend="eager")(X)
    gc.collect()
    assert region() is not None
    del fn
    gc.collect()
    assert region() is None


def test_copies_and_pickles_of_a_function_are_what_they_were():
    torch.compile(doubled, backend="eager")(X)
    assert pickle.loads(pickle.dumps(doubled)) is doubled and copy.deepcopy(doubled) is doubled
    attributes = pickle.loads(pickle.dumps(vars(doubled)))  # as packages that pickle functions by value do
    again = made()
    vars(again).update(attributes)
    assert torch.equal(torch.compile(again, backend="eager")(X), again(X))


def test_sizes_that_are_named_meanwhile_are_heeded():
    graphs, fn = Graphs(), made()
    torch.compile(fn, backend=graphs.backend)(X)
    with torch.compiler.config.patch(dynamic_sources="L['x']"):
        torch.compile(fn, backend=graphs.backend)(X)
    assert [any(node.name == "s0" for node in gm.graph.nodes) for gm in graphs] == [False, True]
