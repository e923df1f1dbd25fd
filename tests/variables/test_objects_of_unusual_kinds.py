"""Objects of the program that a trace reads, and whose own methods must not run."""

from __future__ import annotations

import collections
import copy
import decimal
import math
import types
import typing

import pytest
import torch

from tests.support import breaks, captured, check, check_made

X = torch.ones(2)
T = typing.TypeVar("T")


class Changing:
    """Its hash changes with it, so that no dict finds it again."""

    def __init__(self, v):
        self.v = v

    def __hash__(self):
        return hash(self.v)

    def __eq__(self, other):
        return self.v == other.v


def test_dict_with_a_key_whose_hash_has_changed():
    def fn(x, table):
        return x + table["a"] + len(table)

    def make():
        key = Changing(1)
        table = {key: 5, "a": 1}
        key.v = 2
        return (torch.ones(2), table), {}

    check_made(fn, make)


def test_dict_with_keys_that_have_become_equal():
    first, second = Changing(1), Changing(1)
    table = {first: "first"}
    first.v = 2
    table[second] = "second"
    second.v = 2
    assert len(table) == 2

    def fn(x):
        return x + len(table), list(table.values())

    check(fn, X)


def test_methods_that_modules_have_from_object():
    def fn(x, module):
        return x + 1, module.__reduce_ex__.__name__

    check_made(fn, lambda: ((torch.ones(2), types), {}))


def test_copying_a_module_fails_as_in_python():
    def fn(x):
        return x, copy.deepcopy(types)

    assert isinstance(check(fn, torch.ones(2)).error, TypeError)


class Bare:
    __slots__ = ("own",)
    fixed = 1

    def method(self):
        return 2


class Checking(Bare):
    __slots__ = ()

    def __setattr__(self, name, value):
        super().__setattr__(name, value)


@pytest.mark.parametrize("cls", [Bare, Checking])
@pytest.mark.parametrize("name", ["missing", "fixed", "method"])
def test_an_object_without_a_dict_refuses_a_store_in_cpythons_words(cls, name):
    def fn(x, obj):
        obj.own = 5
        try:
            setattr(obj, name, 3)
        except AttributeError as error:
            return x + obj.own, str(error)

    check_made(fn, lambda: ((X, cls()), {}))


def test_what_is_missing_is_named_in_cpythons_words():
    def fn(x):
        obj, texts = Bare(), []
        for read in (
            lambda: obj.own,
            lambda: obj.other,
            lambda: object.__getattribute__(obj, "own"),
            lambda: delattr(obj, "own"),
            lambda: delattr(obj, "other"),
            lambda: delattr(obj, "fixed"),
            lambda: setattr([], "other", 1),
            lambda: setattr((), "other", 1),
            lambda: setattr(collections.deque(), "other", 1),
        ):
            try:
                read()
            except AttributeError as error:
                texts.append(str(error))
        return x + 1, texts

    captured(fn, X)


def test_super_of_another_class_is_refused_in_cpythons_words():
    def fn(x, owner):
        try:
            super(Bare, owner)
        except TypeError as error:
            return x + 1, str(error)

    for owner in (3, "text", collections.OrderedDict(), Checking, int, collections.OrderedDict):
        check(fn, X, owner)


def test_descriptors_written_in_c_are_read_by_hand():
    mro_of, dict_of, own = type.__dict__["__mro__"].__get__, type.__dict__["__dict__"].__get__, Bare.__dict__["own"].__get__

    def fn(x):
        obj = Checking()
        obj.own = x + 1
        return own(obj), own(obj, Checking), mro_of(Checking)[1].fixed, "method" in dict_of(Bare), "other" in dict_of(Bare)

    captured(fn, X)


class WithDefault(Bare):
    def __getattr__(self, name):
        return 7


def test_a_descriptor_that_is_read_by_hand_asks_no_getattr():
    own = Bare.__dict__["own"].__get__

    def fn(x):
        obj = WithDefault()
        try:
            return x + obj.own, own(obj)
        except AttributeError as error:
            return x + 1, str(error)

    check(fn, X)


CALLS = []


class Counting(typing.Generic[T]):
    def __init_subclass__(cls, **options):
        CALLS.append(cls.__name__)
        super().__init_subclass__(**options)


class Counted(Counting):
    pass


def test_a_class_method_written_in_c_that_super_finds_is_called_behind_a_break():
    def fn(x):
        CALLS.clear()
        Counted.__init_subclass__()
        return x + 1, list(CALLS)

    check(fn, X)


UserId = typing.NewType("UserId", int)


class Layers(torch.nn.Module):
    """Its class holds builtins, which are not bound to the module."""

    act = torch.relu
    count = len
    add = staticmethod(torch.add)

    def forward(self, x):
        return self.add(self.act(x), 1) * self.count([1, 2])


class Sized:
    """C calls the builtins that stand for special methods without the object."""

    __call__ = len
    root = math.sqrt

    def __eq__(self, other):
        return vars(self) == other.__dict__

    def __repr__(self):
        return f"Sized({self.__dict__})"


def test_builtins_in_a_class_are_not_bound():
    module = Layers()
    captured(lambda x: (module(x - 1), Sized()([1, 2]), Sized().root(4.0), Sized.root(9.0), UserId(3) * x), X)


def test_the_attributes_of_objects_are_compared_and_joined():
    def f(x, given):
        one, other = Sized(), Sized()
        one.a = other.a = x
        told = one == other, vars(given) == {"a": 2}, {"a": 2} != vars(given), repr(given), str(vars(given))
        other.b = 2
        return x + 1, told, one == other, vars(given) | {"b": 1}, {"b": 1, "a": 0} | vars(given), "%s" % vars(given)

    given = Sized()
    given.a = 2
    captured(f, X, given)


class Borrows:
    """Holds a method that C binds to tensors only."""

    sine = torch.Tensor.sin


def test_a_method_of_another_class_is_not_bound():
    def f(x):
        try:
            return Borrows().sine(x)
        except TypeError as error:
            return x + 1, str(error)

    breaks(f, X)
    captured(lambda x: Borrows.sine(x), X)


class CountingContext(decimal.Context):
    """C keeps its attributes, by a `__setattr__` of its own."""

    def __init__(self):
        super().__init__()
        self.count = 0


class CountingAlias(types.GenericAlias):
    """C asks `list` for its attributes, but takes those that are set."""

    def __init__(self, *parameters):
        self.count = 0


@pytest.mark.parametrize("make", [CountingContext, lambda: CountingAlias(list, (int,))])
def test_attributes_that_c_reads_or_stores_in_its_own_way_are_left_to_it(make):
    def fn(x, counting):
        try:
            counting.count += 1
            return x * counting.count
        except AttributeError as error:
            return x, str(error)

    check_made(fn, lambda: ((X, make()), {}))
