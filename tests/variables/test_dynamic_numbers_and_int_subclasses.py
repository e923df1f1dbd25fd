"""A number that has become dynamic, compared with and computed on beside enum members and instances of subclasses of int."""

from __future__ import annotations

import enum

import pytest
import torch

import tracer
from tracer.api.callables import compiled
from tracer.api.settings import Settings


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 6


class Permission(enum.IntFlag):
    X = 1
    W = 2
    R = 4


class Plain(enum.Enum):
    ONE = 1

    def __eq__(self, other):
        return self.value == other

    def __hash__(self):
        return 1


class Number(int):
    pass


class Alias(enum.IntFlag):
    A = 1
    B = 2
    BOTH = 3
    ONE = 1


class Shifted(int):
    def __eq__(self, other):
        return int(self) == other + 1

    def __hash__(self):
        return 1


OTHERS = [Level.LOW, Level.HIGH, Permission.R | Permission.W, Plain.ONE, Number(6), Shifted(7), 6 + 0j, "6", None]


@pytest.mark.parametrize("other", OTHERS, ids=repr)
def test_comparison_with_a_number_that_varies(other):
    def fn(x, n):
        return x * n, n == other, other == n, n != other, other != n, [other == n], n in (other,)

    traced = compiled(fn, Settings())
    for n in (3, 6, 1, 5, 6):
        expected, seen = fn(torch.ones(2), n), traced(torch.ones(2), n)
        assert torch.equal(expected[0], seen[0])
        assert seen[1:] == expected[1:]


@pytest.mark.parametrize("other", [Level.HIGH, Permission.R, Number(6)], ids=repr)
def test_arithmetic_with_a_number_that_varies(other):
    def fn(x, n):
        results = [n & other, other & n, n | other, other | n, n ^ other, n + other, other - n]
        return x * n, results, [type(result) for result in results]

    traced = compiled(fn, Settings())
    for n in (3, 6, 1, 5):
        expected, seen = fn(torch.ones(2), n), traced(torch.ones(2), n)
        assert seen[1:] == expected[1:]


def test_members_are_in_their_own_class_whatever_their_numbers():
    def fn(x):
        found = [Permission.X in Alias, Alias.A in Permission, Alias.BOTH in Alias, Alias.ONE in Alias]
        return x + 1, found, [member in Level for member in (Level.LOW, Permission.X)], (Alias.A | Alias.B) in Alias

    traced = compiled(fn, Settings())
    assert traced(torch.ones(2))[1:] == fn(torch.ones(2))[1:]


TAKES_NO_SYMBOLIC_BOOL = {
    "a tensor of it": lambda x, large: torch.tensor(large),
    "a tensor of several": lambda x, large: torch.tensor([large, not large], dtype=torch.float64),
    "a tensor like another": lambda x, large: x.new_tensor(large),
    "a keyword of an operator": lambda x, large: x.sum(0, keepdim=large),
    "an index": lambda x, large: x[large],
}


@pytest.mark.parametrize("name", TAKES_NO_SYMBOLIC_BOOL)
def test_a_comparison_of_sizes_goes_where_an_operator_takes_a_plain_bool(name):
    def fn(x):
        return TAKES_NO_SYMBOLIC_BOOL[name](x, x.shape[0] > 3)

    traced = tracer.compile(fn, fullgraph=True, dynamic=True)
    for rows in (2, 5, 3, 4):
        x = torch.arange(float(rows))
        torch.testing.assert_close(traced(x), fn(x), rtol=0, atol=0)
    assert traced.stats()["compiles"] == 2
