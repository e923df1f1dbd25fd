"""Functions with a cache (functools.lru_cache, functools.cache) called by traced code."""

from __future__ import annotations

import functools
import math

import pytest
import torch

import tracer
from tests.soundness.watching import Watched
from tests.support import captured
from tests.support.caches import caches, counts, listed, pure
from tracer.api.callables import compiled
from tracer.api.settings import Settings

X = torch.ones(3)


SCALE = 2


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


def test_a_list_that_a_cache_keeps():
    def fn(x):
        return x * listed(3)[0], listed(3) is listed(3), len(listed(4))

    captured(fn, X)


def test_objects_that_caches_keep_are_asked_for_with_sizes():
    def using(recipe, sizes):
        def fn(x):
            shape, order, (rank, scale) = sizes(recipe(" cba "), tuple(x.shape))
            return x.permute(order).reshape(shape) * scale + rank, recipe(" cba ", kind=list).order["kind"] is list

        return fn

    plain, traced = caches(), caches()
    watched = Watched(using(*traced), plain=using(*plain))
    for size in (2, 3, 5, 3, 7, 2):
        watched(torch.ones(size, 3, 4))
    assert counts(*traced) == [(0, 0, 8, 0), (0, 0, 128, 0)]  # nothing asks the caches
    assert watched.traces == len(watched.entries) == 2


@functools.lru_cache
def mode():
    return [torch.is_grad_enabled(), SCALE]


def test_a_cached_function_that_reads_what_the_program_has_changed(scale):
    def in_no_grad(x):
        with torch.no_grad():
            return x + 1, mode()

    def after_a_store(x):
        global SCALE
        SCALE = 5
        return x * mode()[1]

    assert compiled(in_no_grad, Settings(backend="eager"))(X)[1] == [False, 2]
    mode.cache_clear()
    assert compiled(after_a_store, Settings(backend="eager"))(X).tolist() == [5.0] * 3
    mode.cache_clear()


def test_arguments_that_are_equal_have_one_entry():
    def using(cache):
        @cache
        def same(number):
            return [number]

        return lambda x: (x + 1, same(1), same(True), same(1.0), same(number=1))

    for cache in (functools.cache, functools.lru_cache(typed=True)):
        plain = using(cache)(X)[1:]
        traced = compiled(using(cache), Settings(backend="eager"))
        seen = compiled(using(cache), Settings(backend="eager"))(X)[1:]
        assert [list(map(type, each)) for each in seen] == [list(map(type, each)) for each in plain]
        assert [a is b for a in seen for b in seen] == [a is b for a in plain for b in plain]
        assert traced


def test_what_cannot_be_hashed():
    def fn(x):
        try:
            return x, listed([1])
        except TypeError as error:
            return x + 1, str(error)

    captured(fn, X)


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


def test_a_cached_function_that_raises_is_called_again_each_time():
    def raising(cache):
        @cache
        def odd(number):
            raise ValueError(number)

        def fn(x):
            try:
                x = x * odd(x.shape[0])
            except ValueError as error:
                x = x + error.args[0]
            return x * 2

        return fn

    watched = Watched(raising(functools.cache), plain=raising(functools.cache), fullgraph=True)
    for size in (2, 3, 2):
        watched(torch.ones(size))


def test_a_constant_that_somebody_else_has_let_the_cache_keep(scale):
    plain, traced = cached_pair(functools.cache)
    watched = Watched(lambda x: x * traced(5), plain=lambda x: x * plain(5))
    watched(X)
    plain.cache_clear(), traced.cache_clear()
    scale(7)
    plain(5), traced(5)
    scale(2)
    assert watched(X).tolist() == [35.0] * 3
    assert watched.traces == 1


def test_a_key_that_is_no_number_is_found_by_its_identity():
    def program():
        @functools.cache
        def get(number):
            return 1

        return lambda x, number: x * get(number)

    watched = Watched(program(), plain=program())
    for _ in range(3):
        watched(X, float("nan"))


def test_a_tuple_of_constants_is_that_of_the_cache():
    @functools.cache
    def pair(number):
        return number, "a"

    traced = compiled(lambda x: (x, pair(1), pair(1) is pair(1)), Settings(backend="eager"))
    assert traced(X)[1] is pair(1) and traced(X)[2]


@pytest.mark.parametrize("maxsize", [0, 1])
def test_a_cache_that_is_too_small_for_what_it_is_asked(maxsize):
    def program():
        @functools.lru_cache(maxsize)
        def get(number):
            return [number]

        def fn(x):
            first, second, third = get(1), get(2), get(1)
            return x * first[0], first is third, second is third

        return get, fn

    watched = Watched(program()[1], plain=program()[1])
    for _ in range(3):
        watched(X)


def test_a_cache_that_is_asked_for_a_number_that_math_computes():
    def program():
        @functools.cache
        def get(number):
            return [number]

        return lambda x, k: x * get(int(math.sqrt(abs(k))))[0]

    watched = Watched(program(), plain=program())
    for number in (7, 8, 10, 17, 10, -9):
        watched(X, number)


def test_a_method_with_a_cache_behind_what_the_program_changes():
    class Counted:
        calls, by = 0, 3

        @functools.cache
        def times(self, number):
            return [self.by * number]

    def program():
        counted = Counted()

        def fn(x):
            counted.calls += 1
            return (x + 1) * len(counted.times(2)), counted.calls

        return fn

    watched = Watched(program(), plain=program())
    for _ in range(5):
        watched(X)
    assert watched.traces and watched.hits


def test_a_cache_is_asked_for_a_number_that_the_trace_knows_by_another():
    cached = functools.lru_cache(lambda value: value)

    def fn(x, k, n):
        total = k + cached(n)
        return x + 1 if total == 5 else x * total

    traced = tracer.compile(fn, backend="eager", dynamic=True)
    for k, n in ((2, 3), (3, 4), (4, 5), (2, 3)):
        assert torch.equal(traced(torch.ones(2), k, n), fn(torch.ones(2), k, n))


def test_keys_are_told_apart_by_what_lies_in_tuples_that_the_frame_was_given():
    @functools.lru_cache
    def first(shape, by=()):
        return torch.full((2,), float((shape + by)[0]))

    def fn(x, one, other):
        return first(one) + x, first(other) + x, first((), by=one), first((), by=other)

    captured(fn, torch.zeros(2), (1,), (2,))


@pytest.mark.parametrize("given", [(1, 1.0), (1.0, 1), (True, 1), (1.0, True), (True, 1.0), ("a", ("a",))])
def test_a_single_int_or_string_has_a_key_of_its_own(given):
    @functools.lru_cache
    def kind(value, *more, **named):
        return type(value).__name__

    def fn(x, one, other):
        several = kind(one, 0), kind(other, 0), kind(one, named=0), kind(other, named=0)
        return kind(one), kind(other), several, x + 1

    kind.cache_clear()
    expected = fn(X, *given)[:3]
    kind.cache_clear()
    assert tracer.compile(fn)(X, *given)[:3] == expected


def test_results_of_a_cache_have_policies_of_their_own():
    @functools.lru_cache
    def table(shape):
        return torch.zeros(shape)

    def fn(x):
        return table((3, 2)), table((4,)), x + 1

    kept = table((3, 2)), table((4,))
    traced = tracer.compile(fn, fullgraph=True)
    for size in (1, 2, 3):
        assert [seen is one for seen, one in zip(traced(torch.ones(size)), kept)] == [True, True]
    assert traced.stats()["compiles"] == 2


def test_a_float_that_a_cache_has_is_not_computed_of_a_global_that_changes(scale):
    @functools.lru_cache
    def scaled(number):
        return SCALE * number

    def fn(x):
        return x + scaled(1.5)

    expected = []
    for run in (fn, tracer.compile(fn)):
        scaled.cache_clear()
        results = []
        for value in (2, 3, 4):
            scale(value)
            results.append(run(X).tolist())
        expected = expected or results
        assert results == expected
