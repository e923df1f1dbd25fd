"""Ranges whose end varies: what depends on their numbers, and what on the end itself."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.support.comparing import Comparison, deep_copied


def in_parts(x):
    return torch.cat([x[i : i + 8] * i for i in range(0, x.shape[0], 8)])


def in_parts_backwards(x):
    return [x * i for i in range(100, 100 - x.shape[0], -8)]


def asked_about(x):
    numbers = range(1, x.shape[0], 8)
    return x + 1, len(numbers), numbers[-1], numbers[1:], 9 in numbers, list(reversed(numbers)), numbers.index(1), bool(numbers)


def iterated_behind(x):
    return x + 1, iter(range(0, x.shape[0], 8)), list(zip(range(0, x.shape[0], 8), "abc"))


@pytest.mark.parametrize("fn", [in_parts, in_parts_backwards, asked_about, iterated_behind])
def test_ranges_of_the_same_numbers_share_an_entry(fn) -> None:
    traced = tracer.compile(fn, dynamic=True)
    for size in (18, 20, 19, 23):
        x = torch.randn(size)
        Comparison().same(fn(deep_copied(x)), traced(x), str(size))
    assert traced.stats()["compiles"] == 1
    for size in (24, 17, 25, 16, 26, 8, 9, 2, 3):
        x = torch.randn(size)
        Comparison().same(fn(deep_copied(x)), traced(x), str(size))
    assert traced.stats()["compiles"] <= 7


def test_the_end_itself_is_that_of_the_call() -> None:
    def fn(x):
        numbers = range(0, x.shape[0], 8)
        return x + 1, numbers, numbers.stop, numbers == range(0, 24, 8), f"{numbers}", {numbers: 1}

    traced = tracer.compile(fn, dynamic=True)
    for size in (18, 20, 24, 19):
        x = torch.randn(size)
        Comparison().same(fn(deep_copied(x)), traced(x), str(size))


def test_ends_that_may_be_negative_and_steps_beyond_all_ints() -> None:
    def fn(x, n):
        return x + len(range(3, n, 4)), list(range(0, n, -5)), list(range(0, n, 10**30)), [i for i in range(0, n, 1)]

    traced = tracer.compile(fn, dynamic=True)
    with tracer.config.patch(recompile_limit=64):
        for n in (20, 19, 3, 4, -7, -10, -11, 0, 1):
            x = torch.randn(2)
            Comparison().same(fn(deep_copied(x), n), traced(x, n), str(n))
