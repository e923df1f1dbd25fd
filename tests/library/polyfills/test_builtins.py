"""dir(), and the names of a class."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.support import captured

X = torch.arange(3.0)


class Base:
    size = 3

    def __init__(self):
        self.own = 2.0

    @property
    def doubled(self):
        "Twice."
        return self.own * 2

    @doubled.setter
    def doubled(self, value):
        self.own = value / 2


class Derived(Base):
    extra = 1

    @property
    def doubled(self):
        return Base.doubled.fget(self) * 10

    @doubled.setter
    def doubled(self, value):
        Base.doubled.fset(self, value + 1)


class OwnNames:
    def __dir__(self):
        return ["b", "a"]


OBJECT = Derived()
PROGRAMS = {
    "an object made inside": lambda x: (x + 1, dir(Base())),
    "an object": lambda x: (x * 2, [name for name in dir(OBJECT) if not name.startswith("_")]),
    "a class": lambda x: (x + 1, dir(Derived)),
    "names of its own": lambda x: (x + 1, dir(OwnNames())),
    "a module": lambda x: (x + 1, "weight" in dir(torch.nn.Linear(2, 2))),
    "a built-in": lambda x: (x + 1, dir([]), dir(int)),
    "the namespace": lambda x: (x + 1, list(vars(Base)), len(Base.__dict__), "size" in Base.__dict__.keys()),
    "its items": lambda x: (x + 1, [name for name, value in vars(Derived).items() if isinstance(value, property)]),
    "its values": lambda x: x * sum(value for value in vars(Base).values() if isinstance(value, int)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_names_of_objects_and_classes_are_known_while_tracing(name):
    captured(PROGRAMS[name], X)


def test_a_name_that_a_class_gets_later_is_seen():
    class Changing:
        pass

    traced = tracer.compile(lambda x: (x + 1, [name for name in dir(Changing) if not name.startswith("_")]), fullgraph=True)
    assert traced(X)[1] == []
    Changing.later = 1
    assert traced(X)[1] == ["later"]


def _by_hand(x):
    obj = Derived()
    obj.doubled = 5.0
    Base.doubled.__set__(obj, obj.own + 1)
    read = Base.doubled.fget(obj), Base.__dict__["doubled"].__get__(obj), Base.doubled.__get__(obj, Derived), obj.doubled
    return x * sum(read), read, Base.doubled.__doc__, Base.doubled.fdel, isinstance(Base.doubled, property)


def test_properties_are_read_and_called_by_hand():
    captured(_by_hand, X)


def test_dir_without_an_argument_names_the_locals_of_the_program_alone():
    def f(x):
        y = x + 1
        return y, dir()

    assert tracer.compile(f)(X)[1] == ["x", "y"]
