"""Functions with a cache (functools.lru_cache, functools.cache) called by traced code."""

from __future__ import annotations

import functools

import pytest
import torch

from tests.soundness.watching import Watched
from tests.support import breaks, captured
from tracer.library.functools_ import kept_results

X = torch.ones(3)
SCALE = 2


@functools.lru_cache
def pure(number, offset=1):
    return number * 2 + offset


@functools.cache
def listed(number):
    return [number]


def cached_pair(cache):
    """Two caches of functions that read a global."""

    @cache
    def one(number=1):
        return SCALE * number

    @cache
    def other(number=1):
        return SCALE * number

    return one, other


@pytest.fixture
def scale():
    """Sets the global, and puts it back."""
    yield lambda value: globals().update(SCALE=value)
    globals().update(SCALE=2)


def test_results_that_depend_on_the_arguments_alone():
    def fn(x):
        return x * pure(3), pure(3, offset=2), pure("a" * 2 if False else 4)

    captured(fn, X)


def test_a_list_that_a_cache_keeps_is_left_to_it():
    def fn(x):
        return x * listed(3)[0], listed(3) is listed(3)

    breaks(fn, X)


@pytest.mark.parametrize("cache", [functools.cache, functools.lru_cache, functools.lru_cache(maxsize=2, typed=True)])
@pytest.mark.parametrize("filled", [False, True])
def test_a_cached_result_outlives_what_it_was_made_from(cache, filled, scale):
    plain, traced = cached_pair(cache)
    if filled:
        plain(5), traced(5)
    watched = Watched(lambda x: x * traced(5) + traced(number=6), plain=lambda x: x * plain(5) + plain(number=6))
    watched(X)
    scale(7)
    watched(X)
    watched(X)
    plain.cache_clear(), traced.cache_clear()
    watched(X)


def test_a_cache_that_is_out_of_date_already(scale):
    plain, traced = cached_pair(functools.lru_cache)
    plain(5), traced(5)
    scale(9)
    Watched(lambda x: x * traced(5), plain=lambda x: x * plain(5))(X)


def test_what_a_cache_keeps():
    @functools.lru_cache(maxsize=3)
    def some(a, b=0, *, c=1):
        return a, b, c

    some("x", 2), some(1), some(1, c=5)
    assert kept_results(some, ["x", 2], {}) == [("x", 2, 1)]
    assert kept_results(some, [1], {}) == [(1, 0, 1)]
    assert kept_results(some, [1], {"c": 5}) == [(1, 0, 5)]
    assert kept_results(some, [3], {}) == []


def test_a_cache_asked_inside_another():
    @functools.cache
    def inner(number):
        return number + 1

    @functools.cache
    def outer(number):
        return inner(number) * 2

    def fn(x):
        return x * outer(3)

    Watched(fn)(X)
    assert (outer.cache_info().currsize, inner.cache_info().currsize) == (1, 1)
    captured(fn, X)


def test_a_method_with_a_cache():
    class Sized:
        def __init__(self):
            self.size = 3

        @functools.lru_cache
        def doubled(self, by=2):
            return self.size * by

    sized = Sized()

    def fn(x):
        return x * sized.doubled() + sized.doubled(by=3)

    captured(fn, X)
