"""Functions with a cache that are called after a change: which of them the output code may call before it makes the change."""

from __future__ import annotations

import functools

import pytest
import torch

import tracer
from tests.soundness.watching import Watched
from tests.support import captured
from tests.support.caches import listed, pure
from tracer.api.callables import compiled
from tracer.api.settings import Settings

X = torch.ones(3)


class Setting:
    value = 1


def stores_an_attribute(setting, get, value):
    setting.value = value
    return get(3)


def stores_in_a_list(setting, get, value):
    setting.items.append(value)
    return get(3)


@pytest.mark.parametrize("store", [stores_an_attribute, stores_in_a_list])
@pytest.mark.parametrize("clears", [False, True])
def test_a_cached_function_reads_what_the_frame_has_stored(store, clears):
    def program():
        setting = Setting()
        setting.items = []

        @functools.cache
        def get(number):
            return setting.value * number + len(setting.items)

        return get, lambda x, value: x * store(setting, get, value)

    (plain, plainly), (traced, fn) = program(), program()
    watched = Watched(fn, plain=plainly)
    for value in (2, 2, 5, 7):
        watched(X, value)
        assert plain(3) == traced(3)
        if clears:
            plain.cache_clear(), traced.cache_clear()


def flagged():
    return flagged.flag + len(flagged.flags)


flagged.flags = []


def test_a_cached_function_reads_what_the_frame_has_stored_at_a_function():
    @functools.cache
    def get(number):
        return flagged() * number

    def fn(x, value):
        flagged.flag = value
        return x * get(3)

    def adding(x, value):
        flagged.flags.append(value)
        return x * get(3)

    for program, given in ((fn, 2), (fn, 5), (adding, 1)):
        traced = compiled(program, Settings(backend="eager"))
        for _ in range(3):
            flagged.flag, flagged.flags = 1, []
            get.cache_clear()
            seen = traced(X, given)
            assert get(3) == 3 * flagged.flag + 3 * len(flagged.flags) > 3
            assert seen.tolist() == [float(get(3))] * 3


def test_a_cached_function_that_stores_once_more_where_the_frame_has_stored():
    def program():
        setting = Setting()

        @functools.cache
        def get(number):
            setting.value = number
            return number

        def fn(x):
            setting.value = 9
            return x * get(3), setting.value

        return fn

    watched = Watched(program(), plain=program())
    for _ in range(3):
        watched(X)


def test_a_cached_function_of_its_arguments_alone_is_in_the_graph_whatever_was_stored_before():
    setting = Setting()

    def fn(x):
        setting.value = 3
        return x * pure(4) + listed(2)[0], listed(2) is listed(2)

    captured(fn, X)


def test_what_is_marked_constant_for_torch_compile_is_asked_behind_a_change_too():
    asked, state = [], {"k": 0}

    def probe():
        import os  # reaches more than can be told

        asked.append(os.name)
        return True

    torch.compiler.assume_constant_result(probe)
    cached = functools.lru_cache(probe)

    def fn(x):
        state["k"] = 1
        return x + 1 if cached() and probe() else x

    traced = tracer.compile(fn, backend="eager", fullgraph=True)
    assert traced(torch.ones(2)).tolist() == [2.0, 2.0]
    while_tracing = len(asked)
    assert [traced(torch.ones(2)).tolist() for _ in range(3)] == [[2.0, 2.0]] * 3
    assert len(asked) == while_tracing
