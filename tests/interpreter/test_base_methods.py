"""Methods of built-in bases called through `super()` on objects of the classes that derive from them."""

from __future__ import annotations

import pytest
import torch

from tests.support import captured

X = torch.ones(3)


class Watched:
    """Goes through the methods of object for all that it does with attributes."""

    def __init__(self):
        super().__setattr__("log", [])

    def __getattribute__(self, name):
        return super().__getattribute__(name)

    def __setattr__(self, name, value):
        self.log.append(("set", name))
        super().__setattr__(name, value)

    def __delattr__(self, name):
        self.log.append(("deleted", name))
        super().__delattr__(name)

    def __eq__(self, other):
        return super().__eq__(other)


def attributes(x):
    watched = Watched()
    watched.a, watched.b = x, 1
    del watched.b
    try:
        del watched.c
    except AttributeError as error:
        return watched, str(error)


def compared(x):
    watched = Watched()
    return watched == watched, watched == Watched(), watched != Watched()


class Doubling(list):
    def append(self, item):
        super().append(item)
        super().append(item)

    def __getitem__(self, index):
        return super().__getitem__(index) * 10

    def __len__(self):
        return super().__len__() + 100


def of_a_list(x):
    items = Doubling([1])
    items.append(2)
    items.extend([3])
    return items[1], len(items), list.__len__(items), [item for item in items]


class Lowercase(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key.lower(), value)

    def __missing__(self, key):
        return f"no {key}"

    def get(self, key, default=None):
        return super().get(key.lower(), default)


def of_a_dict(x):
    table = Lowercase(A=1)
    table["B"] = x
    table.update(C=2)
    return table.get("B"), table["D"], sorted(table), table.setdefault("e", 3)


class Made(tuple):
    def __new__(cls, *items):
        return super().__new__(cls, items)

    def __add__(self, other):
        return type(self)(*super().__add__(other))


def of_a_tuple(x):
    made = Made(1, 2) + (3,)
    return made, type(made) is Made, made[0]


class Odd(int):
    def __new__(cls, value):
        return super().__new__(cls, value * 2 + 1)

    def __add__(self, other):
        return Odd(super().__add__(other))


def of_an_int(x):
    return Odd(3) + 1, Odd(3) * 2, x * Odd(1)


class Registered:
    made: list = []

    def __init_subclass__(cls, /, **options):
        super().__init_subclass__()
        Registered.made.append((cls.__name__, options))


def of_a_class(x):
    Registered.made.clear()

    class First(Registered, rate=2):
        pass

    return list(Registered.made), issubclass(First, Registered)


@pytest.mark.parametrize("program", [attributes, compared, of_a_list, of_a_dict, of_a_tuple, of_an_int, of_a_class])
def test_the_method_of_the_base_does_its_part(program):
    captured(lambda x: (x + 1, program(x)), X)
