"""Builtins, written so that they can be traced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.inside import graph_break
from tracer.protocol.models import models
from tracer.variables.functions.python_functions import as_written

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_OF_OBJECTS, _OF_CLASSES = object.__dir__, type.__dir__


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


_names_of = as_written(names_of)


@models(dir)
def _dir(tx: Tracer, *obj: Any) -> Any:
    if not obj:
        unsupported("frame-introspection", function="dir()")
    return tx.inline(_names_of, list(obj), {})
