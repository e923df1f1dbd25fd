"""Builtins, written so that they can be traced."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

from tracer.inside import graph_break
from tracer.library.frames_of_callers import locals_of_caller
from tracer.protocol.models import models
from tracer.variables.functions.python_functions import as_written

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_OF_OBJECTS, _OF_CLASSES, _OF_MODULES = object.__dir__, type.__dir__, types.ModuleType.__dir__


def names_of(obj: Any, /) -> list[str]:
    kind = type(obj)
    of_class = kind.__dir__ is _OF_CLASSES
    if not of_class and kind.__dir__ is not _OF_OBJECTS:
        if isinstance(obj, types.ModuleType) and kind.__dir__ is _OF_MODULES and "__dir__" not in obj.__dict__:
            return sorted(obj.__dict__)
        if not hasattr(kind.__dir__, "__code__"):
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


def sorted_names(names: dict[str, Any]) -> list[str]:
    return sorted(names)


_names_of, _sorted_names = as_written(names_of), as_written(sorted_names)


@models(dir)
def _dir(tx: Tracer, *obj: Any) -> Any:
    if not obj:
        return tx.inline(_sorted_names, [locals_of_caller(tx)], {})
    return tx.inline(_names_of, list(obj), {})
