"""Builtins, written so that they can be traced."""

from __future__ import annotations

from typing import Any

from tracer.inside import graph_break
from tracer.library.polyfills.replacing import replaces

_OF_OBJECTS, _OF_CLASSES = object.__dir__, type.__dir__


@replaces(dir)
def names_of(obj: Any, /) -> list[str]:
    kind = type(obj)
    of_class = kind.__dir__ is _OF_CLASSES
    if not of_class and kind.__dir__ is not _OF_OBJECTS:
        if not hasattr(kind.__dir__, "__code__"):  # a module, for one
            graph_break()
        return sorted(obj.__dir__())
    found: dict[str, None] = {}
    for base in obj.__mro__ if of_class else kind.__mro__:
        for name in base.__dict__:
            found[name] = None
    if not of_class and hasattr(obj, "__dict__"):
        for name in obj.__dict__:
            found[name] = None
    return sorted(found)
