"""Sources as steps that `_C` reads without running Python: what `csrc/guards/reading.h` calls reads."""

from __future__ import annotations

import inspect
from types import CodeType
from typing import Any

from tracer._C import STEP
from tracer.sources import (
    AttrSource,
    CellSource,
    FreeVarSource,
    GlobalSource,
    GlobalsSource,
    ItemSource,
    LocalSource,
    ObjectSource,
    Source,
)

PLAIN_KEYS = (str, int, bytes)  # of items that are read in C


class Unreadable(Exception):
    """A path that takes Python to read; see `readable`."""


def argument_slots(code: CodeType) -> tuple[str, ...]:
    """The names of the argument slots: positional, keyword-only, then *args and **kwargs."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:count]


class Reads:
    """The steps for some sources, each (kind, step that it starts from, key), one for each value."""

    def __init__(self, code: CodeType, globals: dict[str, Any]) -> None:
        self.steps: list[tuple[int, int, Any]] = []
        self._slots = {name: index for index, name in enumerate(argument_slots(code))}
        self._freevars = code.co_freevars
        self._globals = globals
        self._known: dict[Source, int] = {}

    def of(self, source: Source) -> int:
        """The step that gives the value at the source. Raises Unreadable."""
        known = self._known.get(source)
        if known is None:
            step = self._step(source)
            self.steps.append(step)
            known = self._known[source] = len(self.steps) - 1
        return known

    def _step(self, source: Source) -> tuple[int, int, Any]:
        match source:
            case LocalSource(name):
                return STEP.ROOT, -1, self._slots.get(name, len(self._slots))
            case CellSource(name):
                return STEP.ITEM, self.of(_CLOSURE), self._freevars.index(name)
            case FreeVarSource(name):
                return STEP.CELL_CONTENTS, self.of(CellSource(name)), None
            case GlobalsSource():
                return STEP.CONST, -1, self._globals
            case ObjectSource(obj, _):
                return STEP.CONST, -1, obj
            case GlobalSource(name):
                return STEP.ITEM, self.of(GlobalsSource()), name
            case AttrSource(base, name):
                return STEP.ATTR, self.of(base), name
            case ItemSource(base, key) if type(key) in PLAIN_KEYS:
                return STEP.ITEM, self.of(base), key
        raise Unreadable

    def absent(self, source: Source, key: Any) -> None:
        """A step that finds something only where the dict at the source lacks a key, which is one of PLAIN_KEYS."""
        step = STEP.NO_ITEM, self.of(source), key
        if step not in self.steps:
            self.steps.append(step)


_CLOSURE = LocalSource("<closure>")  # the slot behind those that have names


_ROOTS = frozenset({LocalSource, CellSource, FreeVarSource, GlobalSource, GlobalsSource, ObjectSource})


def readable(source: Source) -> bool:
    """Whether `Reads` can read it."""
    step: Source | None = source
    while step is not None:
        cls = type(step)
        if cls in _ROOTS:
            return True
        if cls is not AttrSource and not (cls is ItemSource and type(step.key) in PLAIN_KEYS):  # type: ignore[attr-defined]
            return False
        step = step.base
    return False
