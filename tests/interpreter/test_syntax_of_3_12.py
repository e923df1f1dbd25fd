"""The syntax of Python 3.12: generic functions and classes, aliases (PEP 695), f-strings that hold any text (PEP 701),
comprehensions that run in the frame around them (PEP 709). Programs are text here, for older versions."""

from __future__ import annotations

import sys
import textwrap

import pytest
import torch

import tracer
from tests.support import captured, check

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12 brings this syntax")
X = torch.ones(3)


def program(text):
    """The function `fn` of a program, or of one whose body is the text."""
    text = textwrap.dedent(text)
    if "def fn(" not in text:
        text = "def fn(x):\n" + textwrap.indent(text, "    ")
    namespace = {"torch": torch, "__name__": __name__}
    exec(compile(text, "<program>", "exec", dont_inherit=True), namespace)  # annotations are evaluated in it
    return namespace["fn"]


CAPTURED = {
    "a generic function": """
        def f[T](x: T, y: int = 2) -> T:
            return x * y

        def fn(x):
            return f(x), f.__type_params__[0].__name__
        """,
    "a generic class": """
        class Box[T]:
            def __init__(self, value: T):
                self.value = value

            def mapped[U](self, function) -> "Box[U]":
                return Box(function(self.value))

        class Small[T](Box[T]):
            pass

        def fn(x):
            return Box[int](x).mapped(lambda value: value + 1).value, Small[int](x).value, Small.__type_params__
        """,
    "a generic module": """
        class Layer[T](torch.nn.Module):
            def forward(self, x: T) -> T:
                return x + 1

        layer = Layer()

        def fn(x):
            return layer(x)
        """,
    "an alias": """
        type Pair[T] = tuple[T, T]
        type Number = int | float

        def fn(x):
            return x + 1, Number, Number.__name__, Pair[int], isinstance(Number, type)
        """,
    "a generic function that is made": """
        def f[T](x: T, y=x.shape[0], *, z: T = 3) -> T:
            return x * y + z
        (first,) = f.__type_params__
        return f(x), f(x, z=1), first.__name__, f.__annotations__["x"] is first, f.__annotations__["return"] is first
        """,
    "all kinds of parameters": """
        def f[T: int, S: (int, str), *Ts, **P](x: T, *args: *Ts) -> S:
            return x + 1
        return f(x), [parameter.__name__ for parameter in f.__type_params__]
        """,
    "a decorated one": """
        import functools

        def twice(function):
            @functools.wraps(function)
            def inner(*args):
                return 2 * function(*args)
            return inner

        @twice
        def f[T](x: T) -> T:
            return x + 1
        return f(x), f.__name__, f.__type_params__[0].__name__
        """,
    "a generic class that is made": """
        class Box[T, *Ts]:
            kept: T
            def first(self, x: T) -> T:
                return x + 1
            def second[U: T](self, x: U) -> dict[U, T]:
                return x + 2
        box = Box()
        return box.first(x) + box.second(x), [parameter.__name__ for parameter in Box.__type_params__]
        """,
    "a class derived from a form": """
        class Named[T](dict[str, T]):
            def total(self) -> T:
                return self["a"] + 1
        return Named(a=x).total()
        """,
    "f-strings in f-strings": """
        words = {"key": 3}
        lines = f"{'\\n'.join(["a", "b"])} {f"{f"{words["key"]}"}"} {x.shape[0]:{words["key"]}} {x.ndim + 1 = }"  # "
        return x + len(lines), lines
        """,
    "comprehensions in a class body and of its parameters": """
        def f[T](x: T, sizes=[n for n in range(2)]) -> T:
            class Table:
                size = 2
                rows = [n * 2 for n in range(size)]
            return [x + n for n in Table.rows if n in [m for m in (n, 7)]], sizes
        return f(x)
        """,
    "an alias that is made": """
        type Number = int | float
        type Pair[T] = tuple[T, Number]
        made: Pair[int] = (x, 1)
        return made[0] + 1, Pair.__name__
        """,
}


@pytest.mark.parametrize("text", CAPTURED.values(), ids=CAPTURED.keys())
def test_one_graph_holds_it(text):
    captured(program(text), X)


LEFT = {
    "function": """
        def f[T: int, S: (int, str), *Ts, **P](x: T, y: list[S] = (), *args: *Ts) -> T | None:
            return x
        return f
        """,
    "class": """
        class Box[T, *Ts]:
            kept: T
            def method[U: T](self, x: U) -> dict[U, T]:
                return x
        return Box
        """,
    "alias": """
        type Pair[T] = tuple[T, Pair[T]]
        return Pair
        """,
}


def seen_of_function(f):
    t, s, ts, p = f.__type_params__
    kinds = [(type(each), repr(each), each.__infer_variance__ if each is not ts else None) for each in f.__type_params__]
    return (
        kinds,
        t.__bound__,
        s.__constraints__,
        f.__annotations__["x"] is t,
        f.__annotations__["y"].__args__[0] is s,
        f.__annotations__["return"].__args__[0] is t,
        f.__module__,
        t.__module__,
    )


def seen_of_class(cls):
    t, ts = cls.__type_params__
    (base,) = cls.__orig_bases__
    method = cls.method
    (u,) = method.__type_params__
    return (
        repr(base),
        base.__args__[0] is t,
        cls.__parameters__ == (t, ts),
        cls.__annotations__["kept"] is t,
        u.__bound__ is t,
        method.__annotations__["return"].__args__ == (u, t),
        repr(cls[int, str]),
        "__classdictcell__" in vars(cls),
    )


def seen_of_alias(alias):
    (t,) = alias.__type_params__
    return repr(alias), repr(alias.__value__), alias.__value__.__args__[0] is t, repr(alias[int])


@pytest.mark.parametrize("kind", LEFT)
def test_each_call_leaves_new_ones(kind):
    fn = program(LEFT[kind])
    seen = {"function": seen_of_function, "class": seen_of_class, "alias": seen_of_alias}[kind]
    compiled = tracer.compile(fn, fullgraph=True)
    expected, made = [fn(X) for _ in range(2)], [compiled(X) for _ in range(2)]
    assert [seen(each) for each in made] == [seen(each) for each in expected]
    assert made[0] is not made[1]
    assert made[0].__type_params__[0] is not made[1].__type_params__[0]


def test_bounds_and_values_are_evaluated_when_they_are_asked_for():
    check(
        program("""
            kind = int
            def f[T: kind](x: T) -> T:
                return x
            type Alias = kind
            kind = str
            return x + 1, f.__type_params__[0].__bound__, Alias.__value__
            """),
        X,
    )


def test_one_that_cannot_be_evaluated_fails_where_it_is_asked_for():
    fn = program("""
        type Alias = missing

        def fn(x):
            y = x + 1
            try:
                return y, Alias.__value__
            except NameError as error:
                return y, str(error)
        """)
    assert "unsupported-attribute" in check(fn, X).break_ids


def test_a_break_among_the_parameters():
    fn = program("""
        import tracer

        def fn(x):
            def f[T: (tracer.graph_break(), int)[1], S](x: T) -> S:
                tracer.graph_break()
                return x + 1
            class Box[T](tracer.graph_break() or dict[str, T]):
                pass
            return f(x), f.__type_params__[0].__bound__, Box.__type_params__[0].__name__
        """)
    check(fn, X)


def test_names_of_the_class_body_are_found_from_the_parameters_of_a_method():
    captured(
        program("""
            kind = int
            class Box[T]:
                kind = str
                def method[U](self, x: kind, y: T) -> U:
                    return y + 1
            return Box().method(1, x), Box.method.__annotations__["x"]
            """),
        X,
    )


def test_forms_of_one_parameter_are_one_object_where_typing_keeps_them():
    captured(
        program("""
            import typing
            def f[T](x: typing.Optional[T], y: typing.Optional[T], z: list[T]) -> T:
                return x + 1
            notes = f.__annotations__
            t = notes["return"]
            return f(x, x, x), notes["x"] is notes["y"], notes["x"].__args__[0] is t, notes["z"] == list[t]
            """),
        X,
    )


def test_an_alias_outlives_the_class_whose_names_it_reads():
    fn = program("""
        class Made:
            T = int
            type Alias = T
            def method[U: T](self): ...

        return x * 2, Made.Alias, Made.method.__type_params__[0]
        """)
    _, alias, parameter = tracer.compile(fn)(X)
    assert alias.__value__ is int and parameter.__bound__ is int
