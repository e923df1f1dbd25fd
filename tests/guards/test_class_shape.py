"""Local classes that live across a graph break: each call makes another class, and guards compare its bases and contents."""

import abc
import collections.abc
import enum

import torch

from tracer.api.callables import compiled
from tracer.api.settings import Settings
from tracer.guards.class_shape import ClassTemplate


def outside(value=None):
    print(end="")
    return value


def _runs(fn, calls):
    """Compares each call with CPython. -> how many graphs were made"""
    graphs = []

    def keep(gm, example_inputs):
        graphs.append(gm)
        return gm

    traced = compiled(fn, Settings(backend=keep, name="shape"))
    for call in calls:
        expected, seen = fn(torch.ones(2), *call), traced(torch.ones(2), *call)
        assert torch.equal(expected[0], seen[0]) and expected[2:] == seen[2:]
        assert type(seen[1]) is not type(expected[1]) and type(seen[1]).__qualname__ == type(expected[1]).__qualname__
    return len(graphs)


def test_a_class_made_at_each_call_does_not_recompile_for_ever():
    def fn(x):
        class Made:
            factor = 2

            def __init__(self, content):
                self.content = content

            def doubled(self):
                return type(self)(self.content * self.factor)

        made = Made(x)
        outside()
        again = made.doubled()
        other = Made(again.content + 1)
        return other.content, other, type(again) is Made, type(other) is type(made), isinstance(again, Made)

    assert _runs(fn, [()] * 6) == 2


def test_two_classes_made_alike_are_told_apart():
    def make(content):
        class Made:
            value = 1

            def __init__(self):
                self.content = content

        return Made

    def fn(x, same):
        first = make(x)
        second = first if same else make(x)
        one, two = first(), second()
        outside()
        return one.content + two.content, one, isinstance(two, first), type(one) is type(two), second is first

    calls = [(True,), (False,), (True,), (False,), (False,), (True,)]
    assert _runs(fn, calls) <= 4


def test_what_is_in_the_class_is_guarded():
    def fn(x, number, late):
        class Made:
            value = number

            def get(self):
                return x * self.value

        made = Made()
        if late == 1:
            outside(setattr)(Made, "value", 10)
        elif late == 2:
            outside(setattr)(Made, "get", lambda self: x - 1)
        elif late == 3:
            outside(setattr)(Made, "__getattr__", lambda self, name: 5)
        outside()
        return made.get() + getattr(made, "absent", 0), made

    _runs(fn, [(2, 0), (2, 0), (3, 0), (3, 1), (3, 2), (2, 0), (3, 3), (2, 1), (2, 0)])


def test_bases_that_differ():
    class One:
        number = 1

    class Two:
        number = 2

    def fn(x, base):
        class Made(base):
            pass

        made = Made()
        outside()
        return x * made.number, made

    _runs(fn, [(One,), (One,), (Two,), (One,), (Two,), (Two,)])


def test_a_class_that_was_registered_with_an_abstract_one():
    class Base(abc.ABC):
        pass

    def fn(x, known):
        class Made:
            def __iter__(self):
                return iter(())

        if known:
            outside(Base.register)(Made)
        made = Made()
        outside()
        return x + isinstance(made, Base), made, isinstance(made, collections.abc.Iterable)

    _runs(fn, [(False,), (True,), (False,), (True,), (False,), (False,)])


def test_a_class_that_is_also_a_global_one():
    def make():
        class Made:
            pass

        return Made

    one = make()

    def fn(x, cls):
        made = cls()
        outside()
        return x + (type(made) is one), made

    traced = compiled(fn, Settings(backend="eager", name="shape"))
    for cls in (make(), make(), one, make(), one):
        assert torch.equal(fn(torch.ones(2), cls)[0], traced(torch.ones(2), cls)[0])


def test_templates():
    def make(base=object, value=1, **names):
        def method(self):
            return value

        return type("Made", (base,), {"method": method, "prop": property(method), "value": value, **names})

    template = ClassTemplate(make())
    assert template.fits(make()) and template.fits(make(value=2))
    others = (make(dict), make(value="a"), make(more=1), make(method=len), make(prop=property(len)), make(__slots__=()), 1, dict)
    assert not any(map(template.fits, others))
    changed = make()
    changed.method = lambda self: 2
    assert not template.fits(changed)


def test_the_guard_runs_no_repr_of_the_program():
    shown = []

    class Kind(enum.Enum):
        ONE = 1

        def __repr__(self):
            shown.append(self)
            return "one"

    def fn(x):
        class Made:
            _kind, _kinds = Kind.ONE, frozenset([Kind.ONE])

        made = Made()
        outside()
        return x + made._kind.value, made, len(made._kinds)

    assert _runs(fn, [()] * 3) and not shown
