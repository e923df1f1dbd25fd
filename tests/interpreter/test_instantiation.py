"""Instances of subclasses of built-in classes get the arguments that the built-in `__new__` takes, and errors in its words."""

from __future__ import annotations

import pytest
import torch

from tests.support import captured, check

X = torch.ones(2)


class Fixed(tuple):
    pass


class NamedFixed(tuple):
    def __init__(self, items=(), *more, name=None):
        self.name = name


class Number(int):
    pass


class NumberInBase(int):
    def __init__(self, text, base=10):
        self.base = base


class NamedNumber(int):
    def __init__(self, number, name=None):
        self.name = name


class Real(float):
    pass


class NamedReal(float):
    def __init__(self, number, name=None):
        self.name = name


class Text(str):
    pass


class Data(bytes):
    pass


class Pair(complex):
    pass


MADE = {
    "a number in a base": lambda: Number("11", base=2),
    "a number and its base": lambda: (NumberInBase("11", base=2), NumberInBase("11", base=2).base),
    "a text of an object": lambda: Text(object=5),
    "a text of bytes": lambda: Text(b"ab", encoding="ascii"),
    "bytes of a text": lambda: Data("ab", encoding="ascii"),
    "a complex number": lambda: Pair(real=1, imag=2),
    "a float whose `__init__` takes a keyword": lambda: (NamedReal(3, name=4), NamedReal(3, name=4).name),
    "a tuple whose `__init__` takes a keyword": lambda: (NamedFixed([1, 2], name=3), NamedFixed([1, 2], name=3).name),
    "a tuple whose `__init__` takes its items by keyword": lambda: NamedFixed(items=[1, 2]),
    "a tuple that `tuple.__new__` makes": lambda: tuple.__new__(NamedFixed, iterable=[1, 2]),
}
REFUSED = {
    "a tuple by keyword": lambda: Fixed(iterable=[1]),
    "two arguments of a tuple": lambda: Fixed([1], [2]),
    "two arguments of a tuple whose `__init__` takes two": lambda: NamedFixed([1], 2),
    "a keyword of `tuple.__new__`": lambda: tuple.__new__(Fixed, iterable=[1]),
    "a keyword that int has not": lambda: NamedNumber(3, name=4),
    "a float by keyword": lambda: Real(x=3),
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_keywords_are_those_of_the_built_in_class(make):
    captured(lambda x: (x + 1, make()), X)


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_arguments_that_do_not_fit_are_refused_as_cpython_refuses_them(make):
    def fn(x):
        try:
            return x + 1, make()
        except TypeError as error:
            return x + 2, str(error)

    check(fn, X)
