"""A number that varies, given to what CPython computes: texts, bytes, dates, sequences and their methods."""

from __future__ import annotations

import bisect
import collections
import dataclasses
import datetime
import decimal
import fractions
import heapq
import itertools
import json
import math
import operator
import struct
from collections.abc import Callable
from typing import Any

import pytest
import torch

import tracer


def heap(n: int) -> list[int]:
    items = [3, n, 1]
    heapq.heapify(items)
    return items


COMPUTES: dict[str, Callable[[int], Any]] = {
    "a part of a text": lambda n: ("abcdefgh"[:n], "abcdefgh"[n], "abcdefgh"[-n::2]),
    "a part of bytes": lambda n: (b"abcdefg"[n:], b"abcdefg"[n]),
    "a part of a list": lambda n: ([1, 2, 3, 4, 5, 6][1:n], (1, 2, 3, 4, 5, 6)[-n:]),
    "methods of a text": lambda n: ("x".rjust(n), "7".zfill(n), "a b c d".split(" ", n)),
    "formats": lambda n: (f"{n:>5}|{n:03d}|{n!r}", "%05d" % n, "{:d} {}".format(n, n + 1), str(n), hex(n)),
    "membership": lambda n: (n in (1, 2, 3), n in [3, 4], n in {3, 4}, n in {3: 1}, chr(65 + n) in "ABCD"),
    "parts of a number": lambda n: (n.real, n.imag, n.numerator, n.denominator, (n > 3).real, (n / 2).imag),
    "a date": lambda n: datetime.timedelta(n).days,
    "exact numbers": lambda n: (decimal.Decimal(n), fractions.Fraction(n, 3)),
    "bytes": lambda n: (struct.pack("i", n), n.to_bytes(2, "big"), bytes(n)),
    "combinations": lambda n: (list(itertools.combinations("abcd", n)), math.comb(5, n)),
    "containers": lambda n: (heap(n), bisect.bisect([1, 3, 5], n), collections.deque([1, 2, 3, 4], maxlen=n)),
    "a document": lambda n: json.dumps({"n": n}),
}


@pytest.mark.parametrize("name", COMPUTES)
def test_a_number_that_varies_is_given_to(name: str) -> None:
    def fn(x: torch.Tensor, n: int) -> Any:
        return x * n, COMPUTES[name](n)

    traced = tracer.compile(fn, fullgraph=True)
    for n in (2, 3, 4, 5):
        seen, expected = traced(torch.ones(2), n), fn(torch.ones(2), n)
        assert repr(seen) == repr(expected)


MILESTONES = collections.Counter([3, 30])
BY_NUMBER = {3: 2.0, 30: 3.0, "best": 1.0, None: 0.0}
IN_A_SET = {3, 30}
LOOKS_UP: dict[str, Callable[[int], Any]] = {
    "in a set": lambda n: n in IN_A_SET,
    "in a dict": lambda n: n in BY_NUMBER,
    "in a counter": lambda n: n in MILESTONES,
    "of a counter": lambda n: MILESTONES[n],
    "of a dict": lambda n: BY_NUMBER.get(n, 7.0),
    "in the keys": lambda n: n + 1 in {1: n, 2: n, 31: n},
}


@pytest.mark.parametrize("name", LOOKS_UP)
def test_a_number_that_is_no_key_is_not_fixed(name: str) -> None:
    def fn(x: torch.Tensor, n: int) -> Any:
        return x * n, LOOKS_UP[name](n)

    traced = tracer.compile(fn, fullgraph=True)
    for n in (2, 3, 4, 5, 30, 6, 7, 3, 30, 2):
        assert repr(traced(torch.ones(2), n)) == repr(fn(torch.ones(2), n))
    assert traced.stats()["compiles"] <= 5


def test_a_dict_that_is_filled_by_number_is_asked_by_number() -> None:
    tables: dict[int, torch.Tensor] = {}

    def fn(x: torch.Tensor, n: int) -> torch.Tensor:
        if n not in tables:
            tables[n] = torch.arange(n)
        return x * tables[n].sum()

    traced = tracer.compile(fn)
    for n in (2, 3, 4, 5, 2, 3, 4, 5):
        seen = traced(torch.ones(2), n)
        assert torch.equal(seen, fn(torch.ones(2), n))
    before = traced.stats()["compiles"]
    for n in (2, 3, 4, 5):
        traced(torch.ones(2), n)
    assert traced.stats()["compiles"] == before


def test_the_rate_of_steps_at_milestones_takes_two_compiles() -> None:
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([parameter], 0.1)
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 40])

    def step(x: torch.Tensor) -> Any:
        scheduler.step()
        return x * optimizer.param_groups[0]["lr"]

    traced = tracer.compile(step)
    for _ in range(12):
        traced(torch.ones(2))
    assert traced.stats()["compiles"] <= 3


@dataclasses.dataclass(frozen=True)
class Shape:
    rows: int
    kind: str = "dense"


BY_SHAPE = {Shape(3): "three", Shape(4): "four"}


def test_the_hash_of_what_holds_a_number_that_varies() -> None:
    def fn(x: torch.Tensor) -> Any:
        rows = x.shape[0]
        hashes = hash((rows, 1.5, True)), hash(x.shape), hash((rows, (rows, int))), hash(Shape(rows))
        return x + 1, hashes, BY_SHAPE.get(Shape(rows)), {Shape(rows): rows}

    traced = tracer.compile(fn, fullgraph=True)
    for rows in (2, 3, 4, 5):
        assert traced(torch.ones(rows))[1:] == fn(torch.ones(rows))[1:]


def a_pair(size: Any) -> Any:
    try:
        height, width = size
    except TypeError as error:
        return str(error), size, size
    return "", height, width


FIXES_NO_VALUE: dict[str, Callable[[int], Any]] = {
    "counting from it": lambda n: [index * 2 for index, _ in enumerate("abc", start=n)],
    "unpacking it": a_pair,
    "its parts": lambda n: (n.real, n.imag),
}


@pytest.mark.parametrize("name", FIXES_NO_VALUE)
def test_a_number_that_varies_is_not_fixed_by(name: str) -> None:
    def fn(x: torch.Tensor, n: int) -> Any:
        return x * n, FIXES_NO_VALUE[name](n)

    traced = tracer.compile(fn, fullgraph=True)
    for n in (2, 3, 4, 5, 6):
        assert repr(traced(torch.ones(2), n)) == repr(fn(torch.ones(2), n))
    assert traced.stats()["compiles"] == 2


@pytest.mark.parametrize("operation", [operator.lshift, operator.rshift, operator.and_, operator.or_, operator.xor])
def test_an_operator_of_bits_of_a_float_that_varies_raises_as_in_python(operation: Callable[[Any, Any], Any]) -> None:
    def fn(x: torch.Tensor, number: float) -> Any:
        try:
            return x * number, operation(number, 1)
        except TypeError as error:
            return str(error)

    with tracer.config.patch(suppress_errors=False):
        traced = tracer.compile(fn, dynamic=True)
        assert [traced(torch.ones(2), number) for number in (2.0, 3.0)] == [fn(torch.ones(2), 2.0)] * 2


def test_floats_that_vary_are_compared_with_nan_as_in_python() -> None:
    def fn(x: torch.Tensor, floats: list[float]) -> Any:
        return x + max(floats), repr(sorted(floats)), floats[0] < floats[1], floats[0] != floats[1], min(floats) == floats[0]

    with tracer.config.patch(suppress_errors=False):
        traced = tracer.compile(fn)
        for floats in ([1.5, 2.5], [2.5, 3.5], [2.5, math.nan], [math.nan, 4.5], [1.0, 2.0]):
            seen, expected = traced(torch.ones(1), floats), fn(torch.ones(1), floats)
            assert torch.equal(seen[0].isnan(), expected[0].isnan()) and str(seen) == str(expected)
