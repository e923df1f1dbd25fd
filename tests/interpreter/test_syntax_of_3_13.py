"""The syntax of Python 3.13: type parameters with defaults (PEP 696). Programs are text here, for older versions."""

from __future__ import annotations

import sys
import typing

import pytest
import torch

import tracer
from tests.support import captured, check
from tests.support.programs import program

pytestmark = pytest.mark.skipif(sys.version_info < (3, 13), reason="Python 3.13 brings this syntax")
X = torch.ones(3)


CAPTURED = {
    "a generic function": """
        def f[T = int, *Ts = *tuple[int, str], **P = [int]](x: T, *args: *Ts) -> T:
            return x + 1

        def fn(x):
            return f(x), [parameter.__name__ for parameter in f.__type_params__]
        """,
    "a generic function that is made": """
        def fn(x):
            def f[T = int, S: str = str](y: T, z: list[S] = ()) -> T:
                return y * 2
            t, s = f.__type_params__
            return f(x), t.__name__, f.__annotations__["y"] is t, f.__annotations__["z"] == list[s]
        """,
    "a generic class that is made": """
        def fn(x):
            class Box[T, U: int = int]:
                def first(self, y: T, z: U = 2) -> T:
                    return y + z
            class Small[T = str](Box[T, int]):
                pass
            return Box().first(x), Small().first(x, 3), Small.__type_params__[0].__name__
        """,
    "an alias that is made": """
        def fn(x):
            type Pair[T, S = int] = tuple[T, S]
            made: Pair[int] = (x, 1)
            return made[0] + 1, Pair.__name__
        """,
    "forms of it": """
        def fn(x):
            class Box[T, S = int]: ...
            class Derived(Box[str, int]): ...
            return x + 1, Box[str, int] == Box[str, int], Derived.__orig_bases__[0] == Box[str, str]
        """,
}


@pytest.mark.parametrize("text", CAPTURED.values(), ids=CAPTURED.keys())
def test_one_graph_holds_it(text):
    captured(program(text), X)


def test_each_call_leaves_new_ones_with_their_defaults():
    fn = program("""
        def fn(x):
            class Box[T, S: (int, str) = str, **P = [S, T]]:
                pass
            def f[*Ts = *tuple[int, Box]]():
                pass
            return Box, f, x + 1
        """)
    compiled = tracer.compile(fn, fullgraph=True)
    expected, made, again = [call(X)[:2] for call in (fn, compiled, compiled)]

    def seen(cls, function):
        t, s, p = cls.__type_params__
        (ts,) = function.__type_params__
        return (
            [each.has_default() for each in (t, s, p, ts)],
            [(type(each), repr(each)) for each in (t, s, p, ts)],
            s.__default__,
            s.__constraints__,
            p.__default__ == [s, t],
            typing.get_args(next(iter(ts.__default__))) == (int, cls),
            repr(cls.__orig_bases__[0]),
            repr(cls[int]),
        )

    assert seen(*made) == seen(*again) == seen(*expected)
    assert made[0].__type_params__[1] is not again[0].__type_params__[1]


def test_defaults_are_evaluated_when_they_are_asked_for():
    check(
        program("""
            def fn(x):
                kind = int
                def f[T = kind](x: T) -> T:
                    return x
                kind = str
                return x + 1, f.__type_params__[0].__default__, f.__type_params__[0].has_default()
            """),
        X,
    )


def test_a_default_of_a_parameter_from_outside_is_not_evaluated_by_the_trace():
    fn = program("""
        evaluated = []

        def f[T = evaluated.append(1) or int](x: T) -> T: ...

        def fn(x):
            y = x + 1
            before = len(evaluated)
            return y, before, f.__type_params__[0].__default__, len(evaluated)
        """)
    assert tracer.compile(fn)(X)[1:] == (0, int, 1)


def test_forms_that_take_a_default_over_are_made_by_cpython():
    result = check(
        program("""
            def fn(x):
                class Box[T, S = T]: ...
                class Derived(Box[str]): ...
                return x + 1, Box[str] == Box[str, str], Box[str] == Box[str, int], Derived.__orig_bases__[0] == Box[str]
            """),
        X,
    )
    assert result.breaks


def test_a_break_among_the_parameters():
    check(
        program("""
            def fn(x):
                def f[T = int, S: (tracer.graph_break(), int)[1] = int](x: T) -> S:
                    tracer.graph_break()
                    return x + 1
                class Box[T = int](tracer.graph_break() or dict[str, T]):
                    pass
                return f(x), f.__type_params__[0].__default__, Box.__type_params__[0].__default__
            """),
        X,
    )
