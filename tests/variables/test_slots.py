"""Special methods called by name on objects of built-in classes give what CPython gives, and raise what it raises."""

from __future__ import annotations

import collections
import types

import pytest
import torch

from tests.support import captured, check_made
from tracer import config
from tracer.variables.slots import BINARY, COMPARE, INPLACE, SLOTS, UNARY

X = torch.ones(2)
MAKE = {
    "list": lambda: [1, 2],
    "tuple": lambda: (1, 2),
    "size": lambda: torch.Size([1, 2]),
    "set": lambda: {1, 2},
    "frozenset": lambda: frozenset((1, 2)),
    "dict": lambda: {1: 2, 3: 4},
    "ordered": lambda: collections.OrderedDict({1: 2, 3: 4}),
    "defaulting": lambda: collections.defaultdict(int, {1: 2, 3: 4}),
    "proxy": lambda: types.MappingProxyType({1: 2, 3: 4}),
    "keys": lambda: {1: 2, 3: 4}.keys(),
    "values": lambda: {1: 2, 3: 4}.values(),
    "items": lambda: {1: 2, 3: 4}.items(),
    "range": lambda: range(1, 3),
    "slice": lambda: slice(1, 3),
    "deque": lambda: collections.deque((1, 2)),
    "iterator": lambda: iter([1, 2]),
    "zip": lambda: zip([1, 2], [3, 4]),
}


class Items(list):
    pass


class Group(set):
    pass


class Table(dict):
    pass


def compare(make, name, *args):
    """As CPython: what the method gives or raises, and what became of the object."""

    def fn(x, value, *args):
        try:
            result = getattr(value, name)(*args)
        except Exception as error:
            return x + 1, type(error), str(error), value
        return x + 1, "iterator" if hasattr(result, "__next__") else type(result), result, value

    with config.patch(accumulated_recompile_limit=1 << 30):
        check_made(fn, lambda: ((X, make(), *args), {}), calls=1)


@pytest.mark.full
@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("name", [name for name in SLOTS if name != "__hash__"])
def test_every_special_method_does_as_in_cpython(kind, name):
    make = MAKE[kind]
    if not hasattr(make(), name) or (kind in ("iterator", "zip") and name in ("__repr__", "__str__", "__format__")):
        return  # or the text has an address
    for args in ((), (1,), ("a",), (1, 2), (torch.Size([0]),)):
        compare(make, name, *args)
    for other in ("list", "frozenset", "proxy", "keys", kind):
        if SLOTS[name].may_decline and not hasattr(make(), "__next__"):
            compare(make, name, MAKE[other]())


@pytest.mark.parametrize(
    ("kind", "name", "args"),
    [
        ("list", "__len__", (1,)),
        ("list", "__getitem__", ()),
        ("list", "__setitem__", (1,)),
        ("list", "__mul__", ()),
        ("list", "__mul__", ("a",)),
        ("list", "__add__", (1,)),
        ("dict", "__delitem__", ()),
        ("dict", "__or__", (1, 2)),
        ("dict", "__ror__", ({1: 5},)),
        ("set", "__iter__", (1,)),
        ("set", "__rsub__", ({5},)),
        ("iterator", "__next__", (1,)),
        ("values", "__eq__", (1,)),
        ("proxy", "__or__", (1,)),
        ("range", "__hash__", (1,)),
        ("tuple", "__reversed__", ()),
        ("tuple", "__add__", (torch.Size([3]),)),
        ("size", "__radd__", ((3,),)),
        ("dict", "__eq__", (types.MappingProxyType({1: 2, 3: 4}),)),
        ("proxy", "__str__", ()),
        ("deque", "__delitem__", ("a",)),
        ("deque", "__setitem__", ("a", 1)),
    ],
)
def test_what_a_special_method_does_not_take_is_refused_as_in_cpython(kind, name, args):
    compare(MAKE[kind], name, *args)


def test_special_methods_are_captured():
    def fn(x):
        items, group, table = [1, 2], {1}, {"a": 1}
        items.__setitem__(0, 5)
        items.__delitem__(1)
        items.__iadd__([3]).__imul__(2)
        group.__ior__({2}).__isub__({1})
        table.__ior__({"b": 2}).__delitem__("a")
        answers = [
            [1].__lt__([2]),
            [1].__lt__(2),
            group.__or__([1]),
            table.__eq__(3),
            range(3).__eq__(range(3)),
            slice(1).__lt__(slice(2)),
            collections.deque([1]).__add__(collections.deque([2])),
            {"a": 1}.keys().__and__(["a"]),
            range(3).__contains__(1),
            zip([1], [2]).__next__(),
            frozenset([1]).__hash__() == hash(frozenset([1])),
            range(3).__hash__() == hash(range(3)),
            [1].__format__(""),
        ]
        return x + 1, items, group, table, answers

    captured(fn, X)


def test_wrong_arguments_raise_without_a_break():
    def fn(x):
        texts = []
        for call in ([1].__len__, [1].__setitem__, [1].__mul__, {1}.__or__, {}.__iter__):
            try:
                call(1, 2, 3)
            except TypeError as error:
                texts.append(str(error))
        try:
            [1].__len__(a=1)
        except TypeError as error:
            texts.append(str(error))
        return x + 1, texts

    captured(fn, X)


def test_a_range_that_is_too_long_has_no_len_and_counts_all_that_is_equal():
    class Anything:
        def __eq__(self, other):
            return True

    def fn(x):
        counts = range(10).count(Anything()), range(10).count(3), range(10).count(11)
        try:
            return x + 1, counts, len(range(2**100))
        except OverflowError as error:
            return x + 1, counts, str(error)

    captured(fn, X)


def test_operands_of_subclasses_are_not_declined():
    compare(lambda: [1], "__lt__", Items([2]))
    compare(lambda: {1, 2}, "__isub__", Group([2]))
    compare(lambda: {1, 2}, "__ge__", Group([2]))
    compare(lambda: {1: 2}, "__or__", Table({3: 4}))
    compare(lambda: {1: 2}, "__eq__", Table({1: 2}))


def test_proxies_are_compared_as_the_dicts_below():
    def fn(x):
        first, second = collections.OrderedDict(a=1, b=2), collections.OrderedDict(b=2, a=1)
        proxy = types.MappingProxyType(first)
        return x + 1, proxy == second, second == proxy, proxy == first, proxy != dict(second), str(proxy), f"{proxy!r}"

    captured(fn, X)


def test_what_a_class_does_not_have_is_missing_by_its_whole_name():
    def fn(x):
        texts = []
        for value in (collections.deque(), (), range(1), iter([]), {}.values()):
            try:
                value.__ipow__
            except AttributeError as error:
                texts.append(str(error))
        return x + 1, texts

    captured(fn, X)


def test_iterators_and_views_know_their_class_and_its_text():
    captured(lambda x: (x + 1, iter([]).__class__, {}.keys().__class__, zip().__doc__, {1}.__doc__), X)


def test_the_dict_of_an_object_deletes_by_name_and_gives_what_is_missing():
    def fn(x, owner):
        owner.__dict__.__delitem__("a")
        try:
            owner.__dict__.pop("a")
        except KeyError as error:
            return x + 1, error.args, owner.__dict__.pop("a", 5), owner.__dict__.setdefault("b", 6), owner.__dict__.get("b")

    check_made(fn, lambda: ((X, types.SimpleNamespace(a=1)), {}))


def test_operators_and_special_methods_have_one_table():
    assert BINARY["+"](2, 3) == 5 and INPLACE["-"](2, 3) == -1 and COMPARE["<="](2, 3) and UNARY["~"](2) == -3
    for name, slot in SLOTS.items():
        wrappers = [vars(cls).get(name) for cls in (int, list, set)]
        for method in wrappers:
            if isinstance(method, types.WrapperDescriptorType) and not name.endswith("pow__"):  # which takes a modulus
                with pytest.raises(TypeError, match=f"^({name})? ?expected {slot.arity} argument"):
                    method(method.__objclass__(), *[1] * (slot.arity + 1))
