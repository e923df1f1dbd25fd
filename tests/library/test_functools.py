"""partial objects, generic functions, caches and orderings of functools, as CPython's own tests use them."""

from __future__ import annotations

import abc
import functools
from collections import UserDict
from collections import abc as collections_abc
from unittest import mock

import pytest
import torch
from test.support import import_helper

from tests.support import captured, check, check_made

X = torch.ones(2)


def arguments_given(*args, **kwargs):
    return args, kwargs


class Methods:
    plain = functools.partialmethod(arguments_given, 3, b=4)
    nested = functools.partialmethod(plain, 5)
    over_partial = functools.partialmethod(functools.partial(arguments_given, c=6), 7)
    static = functools.partialmethod(staticmethod(arguments_given), 8)
    of_class = functools.partialmethod(classmethod(arguments_given), d=9)


def test_partial_methods_read_from_the_class_are_given_the_object_once():
    def fn(x, obj):
        found = [Methods.plain(obj, 5, c=6), Methods.nested(obj, 6), Methods.over_partial(obj, 5), Methods.static(5)]
        found += [Methods.of_class(5), obj.plain(1), obj.nested(2)]
        bound = [hasattr(getattr(owner, name), "__self__") for owner in (Methods, obj) for name in ("plain", "of_class")]
        return x + len(found), [len(args) for args, _ in found], [sorted(kwargs) for _, kwargs in found], bound

    check_made(fn, lambda: ((X, Methods()), {}))


@pytest.mark.parametrize("owner", [None, 3])
def test_get_of_a_function(owner):
    def fn(x):
        function = arguments_given.__get__(owner, int)
        try:
            arguments_given.__get__(None)
        except TypeError as error:
            return x + 1, function(1), str(error)
        return x, function(1)

    check(fn, X)


def test_attributes_of_a_partial_are_read_only():
    def fn(x):
        made, words = functools.partial(arguments_given, 1), []
        for name in ("func", "args", "keywords"):
            try:
                setattr(made, name, map)
            except AttributeError as error:
                words.append(str(error))
        return x + len(words), words

    check(fn, X)


def test_partial_of_an_abstract_function_is_abstract():
    class Abstract(abc.ABC):
        @abc.abstractmethod
        def add(self, left, right): ...

        add5 = functools.partialmethod(add, 5)

    def fn(x):
        return x + 1, Abstract.add5.__isabstractmethod__, bool(getattr(Methods.plain, "__isabstractmethod__", False))

    check(fn, X)


def test_ambiguous_dispatch_raises_in_the_program():
    class Sized:
        def __len__(self):
            return 0

    collections_abc.Iterable.register(Sized)
    collections_abc.Container.register(Sized)

    @functools.singledispatch
    def kind(value):
        return "base"

    kind.register(collections_abc.Iterable, lambda value: "iterable")
    kind.register(collections_abc.Container, lambda value: "container")

    def fn(x, value):
        try:
            return x, kind(value)
        except RuntimeError as error:
            return x + 1, str(error).split(":")[0]

    check_made(fn, lambda: ((X, Sized()), {}))


def test_cache_of_a_generic_function_that_is_watched_is_filled():
    cache = UserDict()
    with mock.patch("weakref.WeakKeyDictionary", lambda: cache):

        @functools.singledispatch
        def kind(value):
            return "base"

    def fn(x, value):
        return x + 1, kind(value), len(cache)

    check_made(fn, lambda: ((X, 3), {}), reset=cache.clear)


def test_python_cache_with_keyword_arguments():
    pure = import_helper.import_fresh_module("functools", blocked=["_functools"])

    def fn(x):
        @pure.lru_cache(maxsize=None)
        def fib(n):
            return n if n < 2 else fib(n=n - 1) + fib(n=n - 2)

        return x + 1, [fib(n=number) for number in range(6)], tuple(fib.cache_info())

    check(fn, X)


def test_classes_whose_metaclass_compares_them():
    @functools.total_ordering
    class Meta(type):
        asked = 0

        def __lt__(cls, other):
            return cls.__name__ < other.__name__

        def __eq__(cls, other):
            Meta.asked += 1
            return cls.__name__ == other.__name__

    class First(metaclass=Meta):
        size = 3

    class Second(First):
        pass

    def fn(x):
        return x + Second.size, First < Second, Second >= First, isinstance(Second(), First), Second().size

    check(fn, X)


def test_hash_of_a_metaclass_is_not_run_while_tracing():
    class Meta(type):
        def __hash__(cls):
            asked.append(cls)
            return 7

        def __eq__(cls, other):
            asked.append(cls)
            return cls is other

    class Plain(metaclass=Meta):
        size = 3

    def fn(x):
        return x + Plain.size + Plain().size

    asked = []
    check_made(fn, lambda: ((X,), {}), reset=asked.clear)
    assert not asked


def test_functions_that_dispatch_are_made_inside():
    def fn(x):
        @functools.singledispatch
        def scaled(value):
            return value + 1

        @scaled.register
        def _(value: int):
            return value * 2

        @scaled.register(list)
        def _of_lists(value):
            return [scaled(each) for each in value]

        scaled.register(torch.Tensor, lambda value: value * 7)
        return scaled(x), scaled(3), scaled([1, x]), scaled(2.0), scaled.dispatch(int) is scaled.registry[int]

    captured(fn, torch.arange(3.0))
