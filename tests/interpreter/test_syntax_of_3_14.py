"""What Python 3.14 brings: annotations that a function gives (PEP 649), t-strings (PEP 750), `except` without parentheses
(PEP 758). Programs are text here, for older versions."""

from __future__ import annotations

import sys

import pytest
import torch

import tracer
from tests.support import captured, check
from tests.support.programs import program

pytestmark = pytest.mark.skipif(sys.version_info < (3, 14), reason="Python 3.14 brings this syntax")
X = torch.ones(3)


CAPTURED = {
    "annotations that nobody reads name what is not there": """
        def fn(x):
            def f(y: Missing) -> AlsoMissing:
                return y + 1
            return f(x)
        """,
    "annotations of a function that is made": """
        def fn(x):
            size = int
            def f(y: size, z: list[float] = ()) -> None:
                return y + 1
            return f(x), f.__annotations__["y"] is int, sorted(f.__annotations__)
        """,
    "a function that is made keeps its annotations": """
        def fn(x):
            def f(y: int) -> str:
                return y + 1
            return f(x), f
        """,
    "the function that gives the annotations stays when they have been read": """
        def fn(x):
            def f(y: int) -> str:
                return y + 1
            read = f.__annotations__
            return f(x), f.__annotate__ is None, f.__annotate__(1), read is f.__annotations__
        """,
    "annotations that are set were given by nothing": """
        def fn(x):
            def f(y: int): ...
            f.__annotations__ = {"y": str}
            return x + 1, f.__annotate__, f.__annotations__
        """,
    "annotations of a class that is made": """
        import dataclasses

        def fn(x):
            @dataclasses.dataclass
            class Point:
                a: int
                b: float = 2.0
            return x + Point(1).b, repr(Point(3)), Point.__annotations__
        """,
    "annotations are those of the time at which they are asked for": """
        import dataclasses

        def fn(x):
            size = int
            class Read:
                kind = float
                a: size
                b: kind
            read = Read.__annotations__
            @dataclasses.dataclass
            class Point:
                a: size
            @dataclasses.dataclass(slots=True)
            class Slotted:
                a: size = 1
            class Late:
                a: size
            size = str
            fields = [cls.__dataclass_fields__["a"].type for cls in (Point, Slotted)]
            return x + Point(1).a, read, fields, Point.__annotations__, Late.__annotations__, Read.__annotations__ is read
        """,
    "classes that are made, with annotations, are kept": """
        import dataclasses

        def fn(x):
            size = int
            class Read:
                a: size
            read = Read.__annotations__
            @dataclasses.dataclass
            class Point:
                a: size
            size = str
            return x + 1, Read, Point, read, Point(2)
        """,
    "annotations of a class that name what is not there": """
        def fn(x):
            class Late:
                a: missing
            try:
                return Late.__annotations__
            except NameError as error:
                return x + 1, str(error)
        """,
    "annotations of a class that is there": """
        class Record:
            a: int
            b: "str" = 2

        def fn(x):
            return x + 1, Record.__annotations__["a"] is int, Record.__annotations__["b"]
        """,
    "an except clause without parentheses": """
        def fn(x):
            try:
                raise KeyError("k")
            except ValueError, KeyError:
                return x + 1
        """,
    "all and any of a generator are loops": """
        def fn(x):
            return x + 1, all(n > 0 for n in x.shape), any(n > 5 for n in x.shape), tuple(n for n in x.shape)
        """,
    "a slice of constants": """
        def fn(x):
            y = [1, 2, 3, 4]
            y[1:3] = [0]
            return x[1:], y[:2], (1, 2, 3)[::-1]
        """,
}


@pytest.mark.parametrize("name", CAPTURED)
def test_one_graph_holds_it(name):
    captured(program(CAPTURED[name]), X)


def test_parameters_are_known_where_annotations_name_what_is_not_there():
    fn = program(
        """
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Missing, x: AlsoMissing) -> None:
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                return grad * 2

        def fn(x: Missing) -> AlsoMissing:
            return Double.apply(x) + 1
        """
    )
    check(fn, torch.ones(3, requires_grad=True))
    assert torch.equal(tracer.export(fn)(X)[0](X), X * 2 + 1)


BREAKS = {
    "annotations with side effects of classes that the library makes": """
        import typing

        def noted(known, kind):
            known.append(kind)
            return kind

        def fn(x, known):
            class Pair(typing.NamedTuple):
                first: noted(known, int)

            return x + Pair(1).first, len(known), Pair(2)
        """,
    "annotations of a class that is there and appends to a list": """
        def fn(x, known):
            class Record:
                first: (known.append("first"), int)[1]

            tracer.graph_break()
            return x + len(known), Record.__annotations__, Record.__annotations__ is Record.__annotations__, known
        """,
    "annotations of a class that are read on both sides of a break": """
        def fn(x, known):
            class Record:
                first: (known.append("first"), int)[1]

            read = Record.__annotations__
            tracer.graph_break()
            return x + len(known), Record.__annotations__ is read, known
        """,
    "annotations of a function that is there and appends to a list": """
        def fn(x, known):
            def f(a: (known.append("first"), int)[1]): ...
            tracer.graph_break()
            before = len(known)
            return x + before, f.__annotations__, f.__annotations__ is f.__annotations__, known
        """,
    "a signature with annotations that append to a list": """
        import inspect

        def fn(x, known):
            def f(a: (known.append("first"), int)[1], b=2): ...
            tracer.graph_break()
            before = len(known)
            return x + before, str(inspect.signature(f)), known
        """,
    "annotations of a function whose variables change first": """
        def fn(x, known):
            kind = int
            def f(a: kind): ...
            def other():
                nonlocal kind
                kind = str
            tracer.graph_break()
            other()
            read = f.__annotations__
            return x + len(known), read["a"] is str
        """,
    "what evaluates the bound of a type parameter": """
        import typing

        T = typing.TypeVar("T", bound=int)

        def fn(x):
            return x + 1, T.evaluate_bound(1), repr(T.evaluate_bound), type.__type_params__
        """,
    "annotations of a class that raise at first": """
        def fn(x, known):
            class Record:
                first: (known.append("first"), known[1])[1]

            tracer.graph_break()
            try:
                Record.__annotations__
            except IndexError:
                known.append("raised")
            return x + len(known), Record.__annotations__, known
        """,
    "a t-string": """
        def fn(x):
            y = x + 1
            name = "sum"
            template = t"the {name!r:>5} of {x.ndim}"
            return y * 2, template.strings, template.values, [part.conversion for part in template.interpolations]
        """,
    "a manager whose method cannot be found while tracing": """
        class Manager:
            @property
            def __exit__(self):
                tracer.graph_break()
                return lambda *error: True

            def __enter__(self):
                return 2

        def fn(x):
            with Manager() as two:
                x = x + two
                raise ValueError
            return x * 3
        """,
    "a break in a with block that is left by an exception": """
        class Manager:
            def __enter__(self):
                return 2

            def __exit__(self, *error):
                return error[0] is ValueError

        def fn(x):
            try:
                with Manager() as two:
                    x = x + two
                    tracer.graph_break()
                    with Manager():
                        x = x + two
                        raise KeyError("k")
            except KeyError as error:
                return x * 3, str(error)
        """,
    "a break where a with block handles an exception": """
        class Manager:
            def __enter__(self):
                return 2

            def __exit__(self, *error):
                tracer.graph_break()
                return error[0] is ValueError

        def fn(x):
            seen = []
            for raised in (ValueError, KeyError):
                try:
                    with Manager():
                        x = x + 1
                        raise raised("r")
                except KeyError as error:
                    seen.append((str(error), error.__traceback__.tb_lineno, error.__traceback__.tb_frame.f_lineno))
            return x * 3, seen
        """,
}


@pytest.mark.parametrize("name", BREAKS)
def test_it_gives_what_cpython_gives(name):
    fn = program(BREAKS[name])
    check(fn, X, *[[]] * (fn.__code__.co_argcount - 1))


def test_a_dataclass_whose_annotations_name_what_is_not_there_is_left_to_cpython():
    fn = program(
        """
        import dataclasses

        def fn(x):
            @dataclasses.dataclass
            class Node:
                value: int
                next: Node = None
            types = [str(field.type) for field in dataclasses.fields(Node)]
            return x + Node(1).value, types[0], Node.__annotations__["next"] is Node
        """
    )
    check(fn, X)


def test_a_function_keeps_its_annotations_and_what_gives_them():
    fn = program(
        """
        def fn(x):
            def f(y: int) -> str: ...
            read = f.__annotations__
            read["more"] = bool
            return x + 1, f, read
        """
    )
    _, function, read = tracer.compile(fn, fullgraph=True)(X)
    assert function.__annotations__ is read and read == {"y": int, "return": str, "more": bool}
    assert function.__annotate__(1) == {"y": int, "return": str}


def test_annotations_set_on_an_argument_were_given_by_nothing():
    fn = program(
        """
        def fn(x, function):
            function.__annotations__ = {"y": str}
            return x + 1, function.__annotate__, function.__annotations__
        """
    )

    def annotated(y: int): ...

    result = tracer.compile(fn, fullgraph=True)(X, annotated)
    assert result[1:] == (None, {"y": str}) and annotated.__annotate__ is None and annotated.__annotations__ == {"y": str}


def test_no_context_manager_is_told_in_the_words_of_this_version():
    class Enters:
        def __enter__(self): ...

    class Asynchronous:
        async def __aenter__(self): ...

        async def __aexit__(self, *error): ...

    def fn(x):
        words = []
        for value in (Enters(), Asynchronous(), 3):
            try:
                with value:
                    pass
            except TypeError as error:
                words.append(str(error))
        return x + 1, words

    captured(fn, X)
