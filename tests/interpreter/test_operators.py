"""Whose method is called for an operator, in which order, and what happens if it returns NotImplemented."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.support import captured, captured_made, check

X = torch.ones(3)
LOG: list[str] = []


def special_methods(answers):
    """A base class whose special methods note that they were called. With `answers` they return a result, else NotImplemented."""

    def method(name):
        def asked(self, other):
            LOG.append(f"{type(self).__name__}.{name}")
            return name if answers else NotImplemented

        return asked

    names = ("add", "radd", "iadd", "lt", "gt", "le", "ge", "eq", "ne")
    return type("Base", (), {f"__{name}__": method(name) for name in names})


class Knows(special_methods(True)):  # type: ignore[misc]
    pass


class Inherits(Knows):
    pass


class Overrides(Knows):
    def __radd__(self, other):
        LOG.append("Overrides.radd, its own")
        return "radd"

    def __gt__(self, other):
        LOG.append("Overrides.gt, its own")
        return "gt"


class Refuses(special_methods(False)):  # type: ignore[misc]
    pass


def added_in_place(a, b):
    a += b
    return a


OPERATIONS = {
    "+": lambda a, b: a + b,
    "+=": added_in_place,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}
CLASSES = (Knows, Inherits, Overrides, Refuses, int)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("left", CLASSES)
def test_operands_are_asked_in_the_order_of_cpython(name, left):
    def fn(x):
        LOG.clear()
        found = []
        for right in CLASSES:
            try:
                found.append(OPERATIONS[name](left(), right()))
            except TypeError as error:
                found.append(str(error))
        return x + 1, found, list(LOG)

    check(fn, X)


def test_containers_compare_identity_before_equality():
    def fn(x):
        nan = float("nan")
        item = Knows()
        LOG.clear()
        return x + 1, nan in [nan], [nan] == [nan], [item] == [item], item in (item,), list(LOG)

    captured(fn, X)


def test_sorting_compares_as_often_as_cpython():
    class Numbered:
        def __init__(self, number):
            self.number = number

        def __lt__(self, other):
            LOG.append(f"{self.number} < {other.number}")
            return self.number < other.number

    def fn(x):
        LOG.clear()
        items = sorted([Numbered(n) for n in (3, 1, 2, 1)], reverse=True)
        return x + 1, [item.number for item in items], list(LOG)

    captured(fn, X)


def test_a_number_that_varies_is_no_singleton_of_another_type():
    def fn(x, n):
        return x * n, n is True, n is False, n is not None, (x.shape[0] > n) is True, (x.shape[0] > n) is not False

    traced = tracer.compile(fn, fullgraph=True, dynamic=True)
    x = torch.ones(7)
    for n in (3, 4, 5):
        assert traced(x, n)[1:] == fn(x, n)[1:]
    assert traced.stats()["compiles"] == 1
    assert traced(x, 9)[1:] == fn(x, 9)[1:]


def test_a_text_is_repeated_as_often_as_a_number_says_that_varies():
    def fn(x, n):
        return x + n, "-" * n, n * b"ab"

    traced = tracer.compile(fn, fullgraph=True, dynamic=True)
    for n in (3, 4, 0, -1):
        assert traced(torch.ones(2), n)[1:] == fn(torch.ones(2), n)[1:]


def test_functions_of_torch_are_compared():
    def fn(x, function):
        known = function in (torch.add, torch.Tensor.add), function == torch.mul, function != torch.Tensor.mul
        return function(x, x), known, torch.add == torch.mul, torch.Tensor.add == torch.add, len == function, fn == function

    for function in (torch.mul, torch.add, torch.Tensor.add):
        captured_made(fn, lambda function=function: ((torch.ones(2), function), {}))
