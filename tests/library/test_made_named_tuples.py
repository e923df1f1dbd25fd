"""`collections.namedtuple` called inside a traced function: a new class at each call."""

from __future__ import annotations

import collections
import typing

import torch

from tests.support import breaks, captured
from tracer.api.callables import compiled
from tracer.api.settings import Settings


def test_a_named_tuple_class_is_made_and_used():
    def fn(a, b):
        Pair = collections.namedtuple("Pair", ["x", "y", "z"], defaults=(None, 1, None))
        pair = Pair(a, z=b)
        return pair.x + pair.y, pair[2], Pair._fields, len(pair), Pair.__name__, Pair.__module__

    captured(fn, torch.ones(2), torch.zeros(2))


def test_what_leaves_the_function_is_of_the_class_of_its_own_call():
    def fn(a):
        Pair = collections.namedtuple("Pair", "x y")
        return Pair(a + 1, 2), Pair

    traced = compiled(fn, Settings(backend="eager"))
    (first, its_class), (second, other_class) = traced(torch.ones(2)), traced(torch.ones(2))
    assert type(first) is its_class
    assert type(second) is other_class
    assert its_class is not other_class
    assert (its_class.__name__, its_class._fields, its_class.__module__) == ("Pair", ("x", "y"), __name__)
    assert torch.equal(second.x, torch.full((2,), 2.0))


def test_names_that_are_no_names_are_left_to_cpython():
    def fn(a):
        try:
            collections.namedtuple("Pair", "x x")
        except ValueError as error:
            return a + len(str(error))

    breaks(fn, torch.ones(2))


def test_a_named_tuple_of_constants_has_the_hash_of_its_items():
    Pair = collections.namedtuple("Pair", "a b")
    captured(lambda x: (x + 1, hash(Pair(1, 2.0)) == hash((1, 2.0)), {Pair("a", None): 3}[Pair("a", None)]), torch.ones(2))


def test_named_tuples_of_typing_are_made_by_calls():
    def fn(a):
        Pair = typing.NamedTuple("Pair", [("x", int), ("y", "list[int]"), ("z", torch.Tensor | None)])
        pair = Pair(1, y=[2], z=a)
        return pair.z + pair.x, pair._replace(y=3).y, Pair._fields, Pair.__name__, Pair.__module__

    def made(a):
        Pair = typing.NamedTuple("Pair", [("x", int), ("y", "list[int]"), ("z", torch.Tensor | None)])
        return Pair(1, 2, a + 1)

    captured(fn, torch.ones(2))
    pair = compiled(made, Settings(backend="eager", name="check", fullgraph=True))(torch.ones(2))
    assert list(type(pair).__annotations__) == ["x", "y", "z"] and type(pair).__annotations__["x"] is int
