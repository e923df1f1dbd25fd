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


def test_functions_with_the_same_code_have_entries_of_their_own():
    graphs = Graphs()
    for _ in range(2):
        torch.compile(made(), backend=graphs.backend)(X)
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
