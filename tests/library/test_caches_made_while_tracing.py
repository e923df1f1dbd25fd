"""Functions with a cache (functools.lru_cache) that the traced program makes itself."""

from __future__ import annotations

import functools
import sys

import pytest
import torch

from tests.support import breaks, captured

X = torch.ones(3)


def made_inside(x):
    @functools.lru_cache(maxsize=None)
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    return x * fib(20), fib.cache_info(), fib.__name__, fib.cache_parameters(), fib.__wrapped__(1), callable(fib)


def made_inside_with_little_room(x):
    @functools.lru_cache(maxsize=2)
    def boxed(n, *more, k=1):
        return [n]

    first = boxed(1), boxed(2), boxed(1), boxed(3)
    kept = boxed(1) is first[0], boxed(2) is first[1], boxed(3) is first[3]
    before = boxed(1, k=2), boxed(n=1), boxed(1, 2), boxed.cache_info()
    boxed.cache_clear()
    return x + 1, first, kept, before, boxed(1) is first[0], boxed.cache_info()


def made_inside_with_keys_that_are_equal(x):
    @functools.cache
    def boxed(*args, **kwargs):
        return [*args]

    @functools.lru_cache(typed=True)
    def typed(a, b=1):
        return [a]

    same = [boxed(1) is boxed(1.0), boxed(True) is boxed(1.0), boxed("a") is boxed("a"), boxed((1, 2)) is boxed((1.0, 2.0))]
    same += [boxed(a=1, b=2) is boxed(b=2, a=1), typed(1) is typed(1.0), typed(1) is typed(1), typed(1, b=2) is typed(1, b=2.0)]
    return x + 1, same, boxed.cache_info(), typed.cache_info()


def made_inside_for_tensors(x):
    @functools.lru_cache
    def doubled(tensor):
        return tensor * 2

    y = x + 1
    return doubled(x), doubled(y), doubled(x) is doubled(x), doubled(y) is doubled(x), doubled.cache_info()


def made_inside_of_what_raises(x):
    calls = []

    @functools.lru_cache(0)
    def uncached(n):
        calls.append(n)
        return n

    @functools.lru_cache
    def failing(n):
        calls.append(n)
        if len(calls) < 4:
            raise ValueError(n)
        return n

    uncached(1)
    uncached(1)
    for value in (5, 5, 5, [6]):
        try:
            failing(value)
        except (ValueError, TypeError) as error:
            calls.append(str(error))
    return x + 1, calls, failing.cache_info(), uncached.cache_info()


@pytest.mark.parametrize(
    "program",
    [
        made_inside,
        made_inside_with_little_room,
        made_inside_with_keys_that_are_equal,
        made_inside_for_tensors,
        pytest.param(
            made_inside_of_what_raises,
            marks=pytest.mark.xfail(
                sys.version_info >= (3, 14), reason="Python 3.14 tells of the dict that a key is for, and caches in C do not"
            ),
        ),
    ],
)
def test_a_cache_that_is_made_inside(program):
    captured(program, X)


def test_a_cache_that_is_made_inside_and_given_out_is_made_by_cpython():
    def fn(x):
        @functools.lru_cache
        def boxed(n):
            return [n]

        first = boxed(1)
        return x + 1, boxed, first

    _, given, first = breaks(fn, X).result
    assert type(given) is functools._lru_cache_wrapper and given(1) is first


def test_a_cache_that_is_made_inside_is_a_method():
    def fn(x):
        class Local:
            @functools.lru_cache
            def name(self, n):
                return type(self).__name__, n

        local = Local()
        return x + 1, local.name(3), Local.name(local, 3)

    breaks(fn, X)


def test_what_a_cache_tells_of_itself_is_asked_behind_a_break():
    @functools.lru_cache
    def pure(number):
        return number * 2 + 1

    assert breaks(lambda x: (x + pure(3), pure.cache_parameters()["maxsize"], pure.cache_info().maxsize), X).break_ids == [
        "unsupported-call",
        "unsupported-method",
    ]


def test_a_method_of_a_cache_that_is_made_inside_is_one_of_the_cache():
    def fn(x):
        counts = functools.lru_cache(lambda n: n).cache_info
        return x + 1, counts, counts()

    assert breaks(fn, X).result[1].__name__ == "cache_info"
