"""Objects that a cache keeps, used in the trace: what leaves the frame is the cache's own, and changes of it are noticed."""

from __future__ import annotations

import functools

import pytest
import torch

from tests.soundness.watching import Watched
from tests.support import breaks
from tests.support.caches import caches, listed
from tracer.api.callables import compiled
from tracer.api.settings import Settings

X = torch.ones(3)


def test_a_cached_object_that_leaves_the_frame_is_the_one_that_the_cache_holds():
    recipe, _ = caches()

    def fn(x, box):
        made = recipe("abc")
        box.append(made.order)
        return x + 1, made

    traced, box = compiled(fn, Settings(backend="eager")), []
    for _ in range(3):
        assert traced(X, box)[1] is recipe("abc")
    assert all(each is recipe("abc").order for each in box)
    recipe.cache_clear()
    assert traced(X, box)[1] is recipe("abc") and box[-1] is recipe("abc").order is not box[0]


def test_a_cached_object_is_the_same_behind_a_graph_break():
    recipe, sizes = caches()

    def fn(x):
        made = recipe("abc")
        x = x + 1
        torch._dynamo.graph_break()
        return x * sizes(made, (1, 2, 3))[0][0], made is recipe("abc")

    breaks(fn, X)


@pytest.mark.parametrize("filled", [False, True])
def test_the_one_object_of_a_function_without_arguments_is_read_as_it_is(filled):
    def program():
        @functools.cache
        def settings():
            return {"scale": [5]}

        if filled:
            settings()
        return settings, lambda x: x * settings()["scale"][0] * len(settings()["scale"])

    (plain, plainly), (traced, fn) = program(), program()
    watched = Watched(fn, plain=plainly, fullgraph=True)
    watched(X)
    for change in (
        lambda settings: settings()["scale"].append(1),
        lambda settings: settings()["scale"].__setitem__(0, 7),
        lambda settings: settings().update(scale=[3]),
        lambda settings: settings.cache_clear(),
    ):
        change(plain), change(traced)
        watched(X)
        watched(X)


def test_an_object_that_others_have_changed_before_the_trace_is_read_as_it_is():
    listed(5)[0] = 7
    traced = compiled(lambda x: x * listed(5)[0] * len(listed(5)), Settings(backend="eager", fullgraph=True))
    assert traced(X).tolist() == [7.0] * 3
    listed(5).append(1)
    assert traced(X).tolist() == [14.0] * 3
    listed.cache_clear()
    assert traced(X).tolist() == [5.0] * 3
    listed.cache_clear()


def test_a_change_of_a_cached_object_is_made_in_the_cache():
    def fn(x):
        kept = listed(6)
        kept.append(1)
        return x * len(kept)

    traced = compiled(fn, Settings(backend="eager"))
    assert [traced(X)[0].item() for _ in range(3)] == [2.0, 3.0, 4.0]
    assert listed(6) == [6, 1, 1, 1]
    listed.cache_clear()


def test_a_cached_object_is_the_one_that_is_held_elsewhere():
    recipe, _ = caches()
    held = recipe("abc")

    def fn(x, others):
        made = recipe("abc")
        return x + 1, made is held, made == held, made in {held}, id(made) == id(held), made in others

    traced = compiled(fn, Settings(backend="eager"))
    assert traced(X, [held])[1:] == (True,) * 5
    recipe.cache_clear()
    assert traced(X, [])[1:] == (False,) * 5
