"""`in` iterates over an object without `__contains__`, however much the tracer knows about its items."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.support import check, check_made

X = torch.ones(3)


@tracer.disable
def opaque(value):
    return value


class Indexed:
    def __getitem__(self, index):
        return [1, 2, 7, 8][index]


class Iterated:
    def __iter__(self):
        return iter([1, 2, 7, 8])


class Neither:
    pass


class NoContainer:
    __contains__ = None

    def __iter__(self):
        return iter([7])


class NotIterated:
    __iter__ = None

    def __getitem__(self, index):
        return [7][index]


MAKERS = {
    "generator": lambda: (number for number in [1, 2, 7, 8]),
    "map": lambda: map(abs, [1, -7, 8]),
    "zip": lambda: zip([7], [8]),
    "values": lambda: {1: 7}.values(),
    "random generator": torch.Generator,
    "indexed": Indexed,
    "iterated": Iterated,
    "neither": Neither,
    "no container": NoContainer,
    "not iterated": NotIterated,
    "property": property,
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_membership_in_an_argument_and_what_is_left_of_it(make):
    def f(x, held):
        found = []
        try:
            found.append(7 in held)
            found.append(8 in held)
        except TypeError as error:
            return x + 2, str(error)
        return x + 1, found

    check_made(f, lambda: ((X, make()), {}))


def test_membership_in_a_generator_behind_a_break():
    def f(x, numbers):
        try:
            items = (number + sum(opaque(number) + each for each in numbers) for number in numbers)
            first = next(items, None)
            found = 7 in items
            opaque(first)
            return x + first, found, 11 in items, list(items)
        except Exception as error:
            return x, str(error)

    check(f, X, [3, 1, 2])
