"""Whose method is called for an operator, in which order, and what happens if it returns NotImplemented."""

from __future__ import annotations

import pytest
import torch

from tests.support import captured, check

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
