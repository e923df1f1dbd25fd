"""Annotations are evaluated when a `def` runs; none of them breaks the graph."""

from __future__ import annotations

import textwrap
import typing
from typing import Any, NamedTuple

import torch

import tracer
from tests.support import captured, check


def _function(text: str) -> Any:
    """`f` of a module that evaluates its annotations."""
    namespace: dict[str, Any] = {"torch": torch, "typing": typing, "Any": Any}
    exec(compile(textwrap.dedent(text), "<annotations>", "exec", dont_inherit=True), namespace)
    return namespace["f"]


def test_annotations_of_a_nested_function_break_nothing() -> None:
    f = _function(
        """
        def f(x):
            def g(a: list[int], b: dict[str, Any], c: int | None, d: typing.Callable[[int], str]) -> typing.Optional[int]:
                return x + 1
            return g(1, 2, 3, 4), g.__annotations__
        """
    )
    captured(f, torch.ones(3))


def test_generic_aliases_compare_and_can_be_taken_apart() -> None:
    def f(x: torch.Tensor) -> Any:
        alias = typing.Dict[str, int]
        same = typing.Optional[int] == typing.Optional[int]
        return x + 1, same, typing.get_origin(alias) is dict, typing.get_args(alias) == (str, int), list[int]((1, 2))

    captured(f, torch.ones(3))


class _Point(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor
    scale = 3  # type: ignore[misc]

    def add(self) -> torch.Tensor:
        return self.first + self.second * self.scale

    @staticmethod
    def fixed() -> int:
        return 1

    @classmethod
    def name_of(cls) -> str:
        return cls.__name__


def test_named_tuples_have_static_methods_class_methods_and_plain_attributes() -> None:
    def f(x: torch.Tensor) -> Any:
        point = _Point(x, x)
        return point.add(), point.fixed(), point.name_of(), point

    captured(f, torch.ones(3))


def test_functions_lack_what_only_their_class_has() -> None:
    def f(x: torch.Tensor) -> Any:
        def g() -> None: ...

        return x + 1, hasattr(g, "__text_signature__"), hasattr(_function, "__text_signature__"), hasattr(g, "__get__")

    assert check(f, torch.ones(3)).result[1:] == (False, False, True)


class _Base:
    factor = 4

    def mul(self, x: torch.Tensor) -> torch.Tensor:
        return x * 0.1


def test_a_local_class_met_first_as_a_base_class_can_be_named_later() -> None:
    class Middle(_Base):
        def mul(self, x: torch.Tensor) -> torch.Tensor:
            return super().mul(x) * self.factor

    class Derived(Middle):
        def both(self, x: torch.Tensor) -> torch.Tensor:
            return super().mul(x) + Middle.mul(self, x)

    instance = Derived()

    def f(x: torch.Tensor) -> torch.Tensor:
        return instance.both(x)

    captured(f, torch.ones(3))


def test_a_class_does_not_have_the_annotations_of_its_base():
    class Base:
        attr: int

    class Derived(Base):
        pass

    def fn(x):
        return x + 1, Base.__annotations__, Derived.__annotations__

    check(fn, torch.ones(2))


T = typing.TypeVar("T")


def test_a_made_class_that_is_subscripted_is_the_origin_of_the_alias() -> None:
    def fn(x):
        class Named(list):
            pass

        class Shelf(typing.Generic[T]):
            pass

        return x + 1, [Named, Shelf], [Named[int], Shelf[int], typing.Optional[Shelf[T]]], Shelf[int](), Named[int].__origin__

    _, (named, shelf), (of_list, generic, optional), made, origin = tracer.compile(fn, fullgraph=True)(torch.ones(2))
    assert of_list.__origin__ is named and generic.__origin__ is shelf and optional.__args__[0].__origin__ is shelf
    assert type(made) is shelf and origin is named
