"""What a program finds out of callables with `inspect`: their signatures, and what arguments would be bound to."""

from __future__ import annotations

import abc
import dataclasses
import functools
import inspect
import operator

import pytest
import torch

import tracer
from tests.support import captured, check

X = torch.arange(3.0)


class Made:
    def __init__(self, a, b=2, *c, d=4, **e):
        pass


class Derived(Made):
    pass


class MadeByNew:
    def __new__(cls, a, b=3):
        return super().__new__(cls)


class Meta(type):
    def __call__(cls, u, v):
        return super().__call__()


class OfMeta(metaclass=Meta):
    pass


class Told:
    __signature__ = inspect.Signature([inspect.Parameter("only", inspect.Parameter.KEYWORD_ONLY)])


class Empty:
    pass


@dataclasses.dataclass
class Record:
    x: int
    y: int = 3


class Called:
    def __call__(self, a, b=1):
        pass


def maker(default):
    def inner(a, b=default, *, c=2):
        return a

    return inner


def wrapping(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs)

    return inner


def annotated(a: int, b: str = "x", /, c: float = 1.0, *args: int, k=None, **kw: str) -> int:
    return a


CALLABLES = [
    Made, Derived, MadeByNew, OfMeta, Told, Empty, Record, Called(), maker(3), wrapping(annotated), annotated, torch.nn.Linear,
    Called().__call__, functools.partial(annotated, 1, k=2), functools.partial(functools.partial(maker(2), c=1), 5), len,
    operator.add, Made.__init__, torch.nn.functional.relu, torch.nn.Linear(2, 2), torch.nn.Linear(2, 2).forward,
]  # fmt: skip


def parameters(function):
    found = inspect.signature(function).parameters.values()
    return [(each.name, each.kind.name, None if each.default is each.empty else each.default) for each in found]


@pytest.mark.parametrize("of", CALLABLES, ids=lambda of: getattr(of, "__qualname__", type(of).__name__))
def test_the_signature_of_anything_that_can_be_called(of):
    def f(x):
        return x * len(parameters(of)), parameters(of)

    captured(f, X)


def test_signatures_of_what_the_trace_makes():
    def f(x):
        def function(a, b=x, *c, d: int = 3, **e) -> int:
            return a

        class Here:
            def __init__(self, a, b=2):
                pass

        signature = inspect.signature(function)
        default = signature.parameters["b"].default
        return default * 2, parameters(Here), default is x, signature.parameters["d"].annotation, signature.return_annotation

    captured(f, X)


def test_arguments_are_bound():
    def f(x):
        bound = inspect.signature(annotated).bind(x, c=2, k=5, z=7)
        bound.apply_defaults()
        try:
            inspect.signature(annotated).bind()
        except TypeError as error:
            words = str(error)
        partial = inspect.signature(lambda a, b=1: a).bind_partial(b=3)
        return bound.arguments["a"] * bound.arguments["c"], bound.args[1:], bound.kwargs, words, partial.arguments

    captured(f, X)


def test_arguments_are_filtered_by_the_names_that_a_function_takes():
    def call(function, **given):
        taken = inspect.signature(function).parameters
        return function(**{name: value for name, value in given.items() if name in taken})

    def f(x):
        return call(lambda x, scale: x * scale, x=x, scale=3, other=4) + call(maker(1), a=x, c=2, d=3)

    captured(f, X)


def test_full_argument_specifications():
    def f(x):
        spec, of_method = inspect.getfullargspec(annotated), inspect.getfullargspec(Called().__call__)
        others = inspect.getfullargspec(lambda a, b=1: a), inspect.getfullargspec(Made.__init__)
        return x * len(spec.args), spec, of_method.args, others

    captured(f, X)


def test_annotations_and_wrapped_functions():
    def f(x):
        function = inspect.unwrap(wrapping(wrapping(annotated)))
        notes = inspect.get_annotations(Record)
        notes["more"] = 1
        return x * 2, function is annotated, notes, inspect.get_annotations(Record), inspect.get_annotations(Derived)

    captured(f, X)


def test_wrappers_in_a_loop():
    def f(x):
        def inner(a):
            return a

        inner.__wrapped__ = inner
        try:
            inspect.signature(inner)
        except ValueError:
            return x * 2

    check(f, X)


def test_namespaces_of_classes_are_read_by_name():
    def f(x):
        found = Derived.__dict__.get("__init__", x)
        held = Made.__dict__["__init__"] is Made.__init__
        try:
            vars(Derived)["__init__"]
        except KeyError as error:
            missing = error.args
        return found * 2, "__init__" in vars(Made), "__init__" in Derived.__dict__, held, missing

    captured(f, X)


def same_after(change, f, *args):
    """What `f` gives, traced, before a change of the program and after it."""
    traced = tracer.compile(f, backend="eager")
    before = traced(*args)
    assert before[1:] == f(*args)[1:]
    change()
    after = traced(*args)
    assert after[1:] == f(*args)[1:]
    assert before[1:] != after[1:]


def test_a_class_that_gets_another_constructor():
    class Changed:
        def __init__(self, a):
            pass

    class Below(Changed):
        pass

    def f(x):
        return x * 2, parameters(Below), "__init__" in Below.__dict__

    same_after(lambda: setattr(Below, "__init__", lambda self, b, c=1: None), f, X)
    same_after(lambda: setattr(Below, "__new__", lambda cls, d: None), f, X)
    same_after(lambda: setattr(Below, "__signature__", inspect.Signature()), f, X)


def test_functions_of_one_code_have_other_defaults():
    traced = tracer.compile(lambda x, function: (x * 2, parameters(function)), backend="eager")
    for default in (3, 4, "a"):
        assert traced(X, maker(default))[1] == parameters(maker(default))


def test_a_function_that_is_said_to_wrap_another():
    function = maker(1)
    same_after(lambda: setattr(function, "__wrapped__", annotated), lambda x: (x * 2, parameters(function)), X)
    same_after(lambda: setattr(function, "__signature__", inspect.Signature()), lambda x: (x * 2, parameters(function)), X)
    same_after(
        lambda: setattr(annotated, "__signature__", inspect.Signature()), lambda x: (x * 2, parameters(wrapping(annotated))), X
    )
    del annotated.__signature__


def plain(a, b=1):
    return a


def test_a_function_of_a_module_that_is_told_another_signature():
    same_after(lambda: setattr(plain, "__signature__", inspect.Signature()), lambda x: (x * 2, parameters(plain)), X)
    del plain.__signature__
    same_after(lambda: setattr(plain, "__wrapped__", annotated), lambda x: (x * 2, parameters(plain)), X)
    del plain.__wrapped__
    same_after(lambda: setattr(plain, "__defaults__", (2,)), lambda x: (x * 2, parameters(plain)), X)


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...


class Square(Shape):
    def area(self):
        return 4


def test_whether_a_class_is_abstract():
    captured(lambda x: (x + 1, [inspect.isabstract(each) for each in (Shape, Square, int, 3)]), X)
