"""Objects that are two in one call and one in the next: if the program has compared their identity, it is traced again."""

from __future__ import annotations

import copy
import datetime
import enum

import numpy as np
import pytest
import torch

import tracer
from tests.soundness.watching import Watched
from tracer.guards.identity import Distinct

X = torch.ones(2)


class Sentinel:
    pass


class EqualToNothing:
    def __eq__(self, other):
        return False

    __hash__ = object.__hash__


FIRST, SECOND, THIRD = Sentinel(), Sentinel(), Sentinel()
TABLE = {FIRST: 1, SECOND: 2}
ODD, OTHER = EqualToNothing(), EqualToNothing()


class Holder:
    def __init__(self, kind, odd=ODD):
        self.kind = kind
        self.odd = odd

    def method(self):
        return self.kind


QUESTIONS = {
    "is": lambda holder: X + 1 if holder.kind is FIRST else X,
    "is not": lambda holder: X + 1 if holder.kind is not FIRST else X,
    "==": lambda holder: X + 1 if holder.kind == FIRST else X,
    "!=": lambda holder: X + 1 if holder.kind != FIRST else X,
    "in a tuple": lambda holder: X + 1 if holder.kind in (FIRST, SECOND) else X,
    "in a set": lambda holder: X + 1 if holder.kind in {FIRST, SECOND} else X,
    "in a dict made here": lambda holder: X + {FIRST: 1, SECOND: 2}.get(holder.kind, 0),
    "in a dict": lambda holder: X + TABLE.get(holder.kind, 0),
    "count": lambda holder: X + [holder.kind, FIRST].count(FIRST),
    "lists": lambda holder: X + 1 if [holder.kind] == [FIRST] else X,
    "ids": lambda holder: X + 1 if id(holder.kind) == id(FIRST) else X,
    "ids as keys": lambda holder: X + len({id(holder.kind), id(FIRST), id(SECOND)}),
    "size of a set": lambda holder: X + len({holder.kind, FIRST, SECOND}),
    "object.__eq__": lambda holder: X + 1 if object.__eq__(holder.kind, FIRST) is True else X,
    "methods": lambda holder: X + 1 if holder.method == MET.method else X,
    "methods as keys": lambda holder: X + len({holder.method, MET.method}),
    "one that is equal to nothing": lambda holder: X + 1 if holder.odd in [ODD] else X,
    "copied": lambda holder: X + len({*copy.copy([holder.kind, FIRST])}),
}
MET = Holder(SECOND)


@pytest.mark.parametrize("question", QUESTIONS)
def test_objects_that_were_two_may_be_one(question):
    asked = QUESTIONS[question]
    compiled = tracer.compile(lambda holder: asked(holder), backend="eager")
    for holder in (Holder(THIRD, OTHER), Holder(FIRST), MET, Holder(SECOND, OTHER), Holder(THIRD, ODD)):
        assert torch.equal(compiled(holder), asked(holder))


def test_functions_that_share_code_are_told_apart():
    def make():
        return lambda x: x

    one, other = make(), make()

    def f(x, function):
        return x + 1 if function == one else x

    compiled = tracer.compile(f, backend="eager")
    for function in (other, one, other):
        assert torch.equal(compiled(X, function), f(X, function))


def test_what_is_guarded_by_value_needs_no_guard_on_identity():
    class Kind(enum.Enum):
        A = 1
        B = 2

    def f(x, kind, nothing):
        return x + 1 if kind is Kind.A or nothing is None or kind in (Kind.A, None) else x

    compiled = tracer.compile(f, backend="eager")
    assert torch.equal(compiled(X, Kind.B, FIRST), X)
    manager = tracer.region_of(compiled).entries()[0].guarded_code.manager
    assert not any(isinstance(guard, Distinct) for guard in manager.guards)


def test_ranges_that_are_equal_are_told_apart_by_what_they_are_in_this_call():
    compiled = tracer.optimize("eager")(lambda a, b: X * 2 if a is b else X * 3)
    one, other = range(3), range(3)
    assert torch.equal(compiled(one, other), X * 3) and torch.equal(compiled(one, one), X * 2)


def test_numbers_that_vary_are_not_told_apart_by_identity():
    def f(x, left, right):
        return x + 1 if left == right and right[0] in left else x

    compiled = tracer.compile(f, backend="eager", dynamic=True)
    big = 10**9
    for left, right in ([[big], [big]], [[big], [5]], [[5], [5]], [[big + 1], [big + 1]], [(big, 0.5), (big, 0.5)]):
        with tracer.config.patch(suppress_errors=False):
            assert torch.equal(compiled(X, left, right), f(X, left, right))


VALUES = {
    "floats": lambda: float("1.5"),
    "ints": lambda: int("1000"),
    "texts": lambda: "".join(["two ", "words"]),
    "bytes": lambda: bytes([1, 2, 3]),
    "complex numbers": lambda: complex("1+2j"),
    "tuples": lambda: tuple([1, 2]),
    "devices": lambda: torch.device("cpu"),
    "nans": lambda: float("nan"),
    "numbers of NumPy": lambda: np.int64(7),
    "small ints": lambda: int("7"),
    "ranges": lambda: range(int("3")),
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("first", ["one", "two"])
def test_equal_values_are_one_object_in_one_call_and_two_in_another(kind, first):
    def program(x, a, b):
        return x + 1 if a is b else x

    compiled, value, other = tracer.compile(program, dynamic=False), VALUES[kind](), VALUES[kind]()
    calls = [(value, value), (value, other), (other, other)]
    for a, b in calls if first == "one" else calls[::-1]:
        assert torch.equal(compiled(X, a, b), program(X, a, b))


@pytest.mark.parametrize("make", [datetime.timedelta, lambda n: torch.Size([n]), lambda n: (n,)])
def test_a_value_that_varied_comes_to_be_another_object_that_did_not(make):
    first, second = make(3), make(4)
    held = [first]
    watched = Watched(lambda x, value: (x + 1, value is held[0], held[0] is value))
    for value in (first, second, first, make(5), make(3), second, first):
        watched(X, value)


def test_a_value_is_told_from_a_literal_that_is_equal_to_it():
    def program(x, kind):
        return x + 1 if kind is LITERAL else x

    compiled = tracer.compile(program)
    for kind in (LITERAL, "".join(["lite", "ral"]), LITERAL):
        assert torch.equal(compiled(X, kind), program(X, kind))


LITERAL = "".join(["lit", "eral"])
ASKED_OF_NANS = {
    "in a list": lambda a, b: a in [b],
    "lists": lambda a, b: [a] == [b],
    "tuples": lambda a, b: (a,) == (b,),
    "values of dicts": lambda a, b: {1: a} == {1: b},
    "keys": lambda a, b: {a: 1}.get(b, 0),
    "sets": lambda a, b: len({a, b}),
    "count": lambda a, b: [a].count(b),
}


@pytest.mark.parametrize("question", ASKED_OF_NANS)
@pytest.mark.parametrize("first", ["one", "two"])
def test_a_nan_is_equal_to_itself_alone_in_containers(question, first):
    def program(x, a, b):
        return x + ASKED_OF_NANS[question](a, b)

    compiled, nan, other = tracer.compile(program), float("nan"), float("nan")
    calls = [(nan, nan), (nan, other)]
    for a, b in calls if first == "one" else calls[::-1]:
        assert torch.equal(compiled(X, a, b), program(X, a, b))


def test_a_number_that_varies_is_no_object_of_another_class():
    missing = object()

    def fn(x, n):
        return x * n if n is not missing else x

    compiled = tracer.compile(fn, dynamic=True, fullgraph=True)
    assert [compiled(torch.ones(1), n).item() for n in (3, 4, 5)] == [3, 4, 5]
