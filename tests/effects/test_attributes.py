"""Stores and deletions of attributes, replayed in their order: what the dict of an object holds, and in which order."""

from __future__ import annotations

import functools

import pytest
import torch

import tracer
from tests.support import check, check_made

X = torch.arange(6.0).reshape(2, 3)


class Plain:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


class Recording:
    def __init__(self):
        object.__setattr__(self, "log", [])

    def __setattr__(self, name, value):
        self.log.append(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        self.log.append(f"-{name}")
        object.__delattr__(self, name)


class Answering:
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return len(name)


class Field:
    def __get__(self, owner, cls=None):
        return self if owner is None else owner.__dict__.get("_field", 0)

    def __set__(self, owner, value):
        owner.__dict__["_field"] = value


class WithField:
    field = Field()


class Base:
    counter = 0


class Derived(Base):
    pass


def test_an_attribute_deleted_and_set_again_comes_last():
    def f(x, o):
        del o.a
        o.c = 1
        o.a = x + 1
        return o, list(o.__dict__), list(vars(o).items())

    check(f, X, Plain(a=1, b=2))


def test_an_attribute_set_then_deleted_was_never_there():
    def f(x, o):
        o.bar = x + 1
        del o.bar
        return o.bar, hasattr(o, "bar"), o

    check(f, X, Answering())


def test_deletions_of_new_objects_with_their_own_setattr():
    def f(x):
        o = Recording()
        o.a = x + 1
        del o.a
        o.b = 2
        return o

    check(f, X)


def test_deletion_after_a_break_of_what_was_set_before_it():
    def f(x, o):
        o.a = x
        tracer.graph_break()
        del o.a
        o.c = 3
        o.a = 9
        return o, o.log

    check(f, X, Recording())


def test_an_attribute_deleted_twice_is_missing_the_second_time():
    def f(x, o):
        object.__delattr__(o, "a")
        object.__delattr__(o, "a")

    assert isinstance(check(f, X, Plain(a=1)).error, AttributeError)


def test_the_dict_of_an_object_below_a_data_descriptor():
    def f(x, o):
        o.field = 4
        o.__dict__["field"] = 77
        return x + o.field, o

    check(f, X, WithField())


def test_a_class_attribute_stored_in_the_trace_is_seen_through_instances_and_subclasses():
    def f(x, o):
        o.counter += 1
        Base.counter += 10
        own = o.counter
        del o.counter
        inherited = o.counter, Derived.counter
        Derived.counter = 99
        return x + own, inherited, o.counter, Base.counter

    def reset():
        Base.counter = 0
        if "counter" in Derived.__dict__:
            del Derived.counter

    check_made(f, lambda: ((X, Derived()), {}), reset=reset)
    reset()


def test_a_method_stored_in_the_trace_is_called():
    class Thing:
        def double(self, x):
            return x * 2

    def f(x, o):
        Thing.double = functools.partial(torch.mul, other=3)
        return o.double(x)

    check(f, X, Thing())


class Marked(torch.Tensor):
    foo = "of the class"


@pytest.mark.parametrize("cls", [torch.Tensor, Marked])
def test_an_attribute_of_a_tensor_that_was_stored_and_deleted_is_gone(cls):
    def program(x):
        x.foo = 2
        del x.foo
        found = getattr(x, "foo", "nothing"), hasattr(x, "foo")
        try:
            return found, x.foo, x * 2
        except AttributeError as error:
            return found, str(error), x * 2

    def make():
        x = X.clone().as_subclass(cls)
        x.foo = 1
        return (x,), {}

    assert check_made(program, make).error is None


def test_an_instance_dict_may_have_a_key_that_is_no_text():
    class Plain:
        pass

    def fn(x):
        plain = Plain()
        plain.__dict__[1] = x
        return x + 1, plain.__dict__

    check(fn, torch.ones(2))
