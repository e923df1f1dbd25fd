"""Regions with plain Python callbacks, for the tests of the extension."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any

import torch  # noqa: F401  (before tracer._C)

from tracer._C import Entry, Region

_firstlineno = itertools.count(1)


def always(*args: Any) -> bool:
    return True


def fresh_code(function: Callable[..., Any]) -> CodeType:
    """A code object that no other test shares, equal to none."""
    assert isinstance(function, FunctionType)
    return function.__code__.replace(co_firstlineno=next(_firstlineno))


def fresh(function: Callable[..., Any]) -> FunctionType:
    """The same function over a code object of its own."""
    assert isinstance(function, FunctionType)
    copy = FunctionType(
        fresh_code(function), function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def entry(
    replacement: Callable[..., Any] | None,
    check_fn: Callable[..., Any] = always,
    *,
    extras: tuple[CellType, ...] = (),
    needs_hook: bool = False,
    globals: dict[str, Any] | None = None,
) -> Entry:
    """An entry that runs the code of `replacement`, or the original."""
    if replacement is None:
        return Entry(check_fn, None, {}, (), None, needs_hook=needs_hook, name="f", qualname="f")
    assert isinstance(replacement, FunctionType)
    names = replacement.__globals__ if globals is None else globals
    name = replacement.__name__
    code = fresh_code(replacement)
    return Entry(check_fn, code, names, extras, None, needs_hook=needs_hook, name=name, qualname=name)


class Recorder:
    """A callback that notes each question and answers from a table by function name; None for names not in it."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, tuple[Any, ...]]] = []

    def __call__(self, region: Region, func: FunctionType, args: tuple[Any, ...]) -> Any:
        self.asked.append((func.__name__, args))
        answer = self.answers.get(func.__name__)
        return answer(region, func, args) if isinstance(answer, FunctionType) else answer

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.asked]
