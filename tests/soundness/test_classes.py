"""What can change about the classes and objects that a trace went through is noticed."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.soundness.watching import Watched, noticed, traced, unharmed

X = torch.tensor([1.0, 2.0, 3.0])


class Base:
    factor = 2

    def scale(self, x):
        return x * self.factor

    @property
    def shift(self):
        return 1

    @classmethod
    def of_class(cls, x):
        return x * cls.factor

    @staticmethod
    def static(x):
        return x + 2


class Derived(Base):
    pass


class Other(Base):
    factor = 20


METHODS = {
    "method": lambda o, x: o.scale(x),
    "property": lambda o, x: x + o.shift,
    "classmethod": lambda o, x: o.of_class(x),
    "staticmethod": lambda o, x: o.static(x),
    "class attribute": lambda o, x: x * o.factor,
    "of the class": lambda o, x: type(o).of_class(x),
    "absent": lambda o, x: x * getattr(o, "absent", 3),
    "len": lambda o, x: x * (len(o) if hasattr(o, "__len__") else 3),
    "truth": lambda o, x: x * (5 if o else 6),
    "equality": lambda o, x: x * (5 if o == 3 else 6),
}


PATCHES = {
    "method": ("scale", lambda self, x: x - 1),
    "property": ("shift", property(lambda self: 5)),
    "classmethod": ("of_class", classmethod(lambda cls, x: x * 77)),
    "staticmethod": ("static", staticmethod(lambda x: x + 99)),
    "class attribute": ("factor", 55),
    "of the class": ("factor", 66),
    "absent": ("absent", 8),
    "len": ("__len__", lambda self: 9),
    "truth": ("__bool__", lambda self: False),
    "equality": ("__eq__", lambda self, other: True),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("where", [Base, Derived], ids=["base", "derived"])
def test_a_class_patched(name, where, monkeypatch):
    attribute, value = PATCHES[name]
    obj = Derived()
    noticed(lambda x: METHODS[name](obj, x), (X,), lambda: monkeypatch.setattr(where, attribute, value, raising=False))


@pytest.mark.parametrize("name", ["method", "staticmethod", "class attribute", "absent"])
def test_an_instance_patched(name):
    obj = Derived()
    attribute, value = PATCHES[name]
    if callable(value):
        value = lambda x: x - 5
    elif isinstance(value, staticmethod):
        value = value.__func__
    noticed(lambda x: METHODS[name](obj, x), (X,), lambda: setattr(obj, attribute, value))


@pytest.mark.parametrize("hook", ["__getattr__", "__getattribute__"])
def test_attribute_hooks_that_appear(hook):
    class Plain:
        def __init__(self):
            self.by = 2

    obj = Plain()
    watched = traced(lambda x: x * obj.by * getattr(obj, "other", 3), (X,))
    setattr(Plain, hook, lambda self, name: 7)
    watched(X)


def test_a_data_descriptor_that_appears():
    class Plain:
        def __init__(self):
            self.by = 2

    obj = Plain()
    noticed(lambda x: x * obj.by, (X,), lambda: setattr(Plain, "by", property(lambda self: 7)))


def test_class_is_assigned():
    obj = Derived()
    noticed(lambda x: obj.scale(x), (X,), lambda: setattr(obj, "__class__", Other))


def test_bases_are_assigned():
    class Left:
        def go(self, x):
            return x + 1

    class Right:
        def go(self, x):
            return x + 2

    class Bottom(Left):
        pass

    obj = Bottom()
    noticed(lambda x: obj.go(x), (X,), lambda: setattr(Bottom, "__bases__", (Right,)))


def test_an_isinstance_that_depends_on_the_bases():
    class Left:
        pass

    class Right:
        pass

    class Bottom(Left):
        pass

    obj = Bottom()
    noticed(lambda x: x + isinstance(obj, Left), (X,), lambda: setattr(Bottom, "__bases__", (Right,)))


def test_a_class_attribute_that_counts_does_not_retrace_what_never_reads_it():
    class Counted:
        calls = 0
        by = 2

        def scale(self, x):
            return x * self.by

    obj = Counted()

    def change():
        Counted.calls += 1

    watched = unharmed(lambda x: obj.scale(x), (X,), change)
    for _ in range(10):
        change()
        watched(X)
    assert watched.traces == 1


def test_a_method_replaced_on_a_parent_of_the_mro_between():
    class Top:
        def go(self, x):
            return x + 1

    class Middle(Top):
        pass

    class Bottom(Middle):
        pass

    obj = Bottom()
    noticed(lambda x: obj.go(x), (X,), lambda: setattr(Middle, "go", lambda self, x: x * 50))


def test_what_super_finds():
    class Top:
        def go(self, x):
            return x + 1

    class Middle(Top):
        pass

    class Bottom(Middle):
        def go(self, x):
            return super().go(x) * 2

    obj = Bottom()
    noticed(lambda x: obj.go(x), (X,), lambda: setattr(Middle, "go", lambda self, x: x * 50))


def test_an_object_made_in_the_trace_of_a_class_that_changes():
    class Maker:
        def __init__(self, by):
            self.by = by

        def scale(self, x):
            return x * self.by

    fn = lambda x: Maker(2).scale(x)
    noticed(fn, (X,), lambda: setattr(Maker, "__init__", lambda self, by: setattr(self, "by", by + 1)))
    noticed(fn, (X,), lambda: setattr(Maker, "scale", lambda self, x: x - self.by))
    noticed(fn, (X,), lambda: setattr(Maker, "__setattr__", lambda self, n, v: object.__setattr__(self, n, v * 2)))


def test_operators_of_a_class_that_change():
    class Number:
        def __init__(self, n):
            self.n = n

        def __add__(self, other):
            return self.n + other

    number = Number(2)
    noticed(lambda x: number + x, (X,), lambda: setattr(Number, "__add__", lambda self, other: other * 100))

    class Silent:
        pass

    silent = Silent()
    watched = Watched(lambda x: x * (3 if hasattr(type(silent), "__mul__") else 4))
    watched(X)
    Silent.__mul__ = lambda self, other: other
    watched(X)


def test_slots():
    class Slotted:
        __slots__ = ("by", "late")

        def __init__(self):
            self.by = 2

    obj = Slotted()
    noticed(lambda x: x * obj.by, (X,), lambda: setattr(obj, "by", 3))
    watched = Watched(lambda x: x * getattr(obj, "late", 5))
    watched(X)
    obj.late = 6
    watched(X)


def test_a_dataclass_argument():
    import dataclasses

    @dataclasses.dataclass
    class Config:
        rate: float = 0.5
        names: tuple = ("a",)
        nested: dict = dataclasses.field(default_factory=lambda: {"k": [1, 2]})

    config = Config()
    fn = lambda x: x * config.rate + len(config.names) + config.nested["k"][1]
    noticed(fn, (X,), lambda: setattr(config, "rate", 0.25))
    noticed(fn, (X,), lambda: setattr(config, "names", ("a", "b")))
    noticed(fn, (X,), lambda: config.nested["k"].__setitem__(1, 3))
    noticed(fn, (X,), lambda: config.nested.__setitem__("k", [1, 5, 3]))


def test_a_bound_method_of_another_object():
    first, second = Derived(), Derived()
    second.factor = 9
    watched = Watched(lambda x, f: f(x))
    for obj in (first, second, first, Other()):
        watched(X, obj.scale)


def test_a_decorated_method_on_several_objects():
    class Layer:
        def __init__(self, by):
            self.by = by

        @tracer.optimize()
        def __call__(self, x):
            return x * self.by

    layers = [Layer(n) for n in (1, 2, 3.0, torch.ones(3))]
    for _ in range(2):
        for layer in layers:
            assert torch.equal(layer(X), X * layer.by)


def test_an_enum_member_and_its_value():
    import enum

    class Mode(enum.Enum):
        A = 2
        B = 3

    watched = Watched(lambda x, mode: x * mode.value if mode is Mode.A else x - mode.value)
    for mode in (Mode.A, Mode.B, Mode.A):
        watched(X, mode)


class Counting:
    count = 0
    ratio = 2


class CountingMore(Counting):
    pass


def test_a_class_attribute_that_counts_becomes_a_symbol():
    def fn(x):
        Counting.count += 1
        return x * Counting.count + CountingMore.count

    watched = Watched(fn)
    traced = watched.compiled
    try:
        for number in range(1, 8):
            assert torch.equal(traced(X), X * number + number)
        assert watched.traces <= 4  # 0 and 1 have their own
        CountingMore.count = 100
        assert torch.equal(traced(X), X * 8 + 100)
        del CountingMore.count
        assert torch.equal(traced(X), X * 9 + 9)
        Counting.count = 0.5
        assert torch.equal(traced(X), X * 1.5 + 1.5)
        Counting.count = True
        assert torch.equal(traced(X), X * 2 + 2)
    finally:
        Counting.count = 0


def test_a_class_attribute_that_counts_and_is_read_as_a_constant_elsewhere():
    def fn(x):
        Counting.ratio += 1
        return x.reshape(Counting.ratio, -1) if Counting.ratio in (1, 2, 4) else x

    traced = Watched(fn).compiled
    x = torch.arange(8.0)
    try:
        for ratio in (0, 3, 1, 6, 0, 3, 5, 2):
            Counting.ratio = ratio
            assert torch.equal(traced(x), x.reshape(ratio + 1, -1) if ratio + 1 in (1, 2, 4) else x)
    finally:
        Counting.ratio = 2
