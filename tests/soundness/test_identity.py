"""Objects that are two in one call and one in the next: whoever asked for their identity is asked again."""

from __future__ import annotations

import copy
import enum

import pytest
import torch

import tracer
from tracer.guards import Distinct

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
