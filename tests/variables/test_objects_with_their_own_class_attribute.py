"""`isinstance` asks an object for its `__class__`, which may be Python code of the program: the tracer does not ask."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch

import tracer
from tests.support import breaks

X = torch.ones(2)
READ: list[str] = []


class Asked:
    def __getattribute__(self, name: str) -> Any:
        READ.append(name)
        return object.__getattribute__(self, name)


class WithDescriptor:
    attribute = Asked()


GLOBAL = Asked()


def test_an_object_that_notes_what_is_read_is_traced_unread() -> None:
    def f(x: torch.Tensor) -> Any:
        asked, instance = Asked(), WithDescriptor()
        print("break")
        kept = asked, GLOBAL, instance.attribute, WithDescriptor.attribute
        return x.sin(), [type(value) is Asked for value in kept]

    checked = breaks(f, X)
    assert checked.operations == ["sin"]
    READ.clear()
    tracer.optimize()(f)(X)
    assert READ == []


class Claiming:
    """Its `__class__` is not its type."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        return self.kind


@pytest.mark.parametrize(
    "ask",
    [
        lambda x, asked: isinstance(1, asked),
        lambda x, asked: issubclass(int, asked),
        lambda x, asked: {asked} == {asked},
        lambda x, asked: len(frozenset([asked, asked])),
        lambda x, asked: torch.nn.Module.__call__(asked),
    ],
)
def test_nothing_is_read_that_cpython_does_not_read(ask: Callable[..., Any]) -> None:
    def f(x: torch.Tensor, asked: Any) -> Any:
        y = x.sin()
        try:
            return y, ask(x, asked)
        except (TypeError, AttributeError) as error:
            return y, str(error)

    def reads(function: Callable[..., Any]) -> Any:
        READ.clear()
        result = function(X, Asked())
        return result[1], list(READ)

    compiled = tracer.optimize()(f)
    expected = reads(f)
    assert reads(compiled) == reads(compiled) == expected


def test_an_object_that_is_raised_and_is_no_exception_is_not_read() -> None:
    def f(x: torch.Tensor, asked: Any) -> Any:
        try:
            raise asked
        except TypeError as error:
            return x.sin(), str(error)

    READ.clear()
    tracer.optimize()(f)(X, Asked())
    assert READ == []


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        (torch.is_tensor, torch.Tensor),
        (inspect.isfunction, type(breaks)),
        (inspect.isclass, type),
        (inspect.ismethod, type([].append)),
        (inspect.ismethod, type(Claiming(int).__init__)),
    ],
)
def test_an_object_that_claims_to_be_of_a_class(question: Callable[[Any], bool], kind: type) -> None:
    def f(x: torch.Tensor, claiming: Any) -> Any:
        return x.sin(), [question(claiming), question(f), question(x), question(x.sin), question(int)]

    compiled = tracer.optimize()(f)
    expected = f(X, Claiming(kind))[1]
    assert compiled(X, Claiming(kind))[1] == compiled(X, Claiming(kind))[1] == expected
