"""inspect, written so that it can be traced."""

from __future__ import annotations

import abc
import inspect
import types
from collections.abc import Callable
from typing import Any

from tracer.inside import graph_break
from tracer.library.polyfills.replacing import replaces
from tracer.protocol.error_words import words_of


@replaces(inspect.unwrap)
def unwrap(func: Any, *, stop: Callable[[Any], bool] | None = None) -> Any:
    """Finds loops by comparing identities, not by a memo of ids, and does not limit the number of wrappers."""
    met = [func]
    while hasattr(func, "__wrapped__") and not (stop is not None and stop(func)):
        func = func.__wrapped__
        for other in met:
            if other is func:
                raise ValueError(f"wrapper loop when unwrapping {met[0]!r}")
        met.append(func)
    return func


@replaces(inspect.isabstract)
def isabstract(object: Any) -> bool:
    """For a class that `ABCMeta.__new__` has made to the end: before, CPython looks through its bases."""
    if not isinstance(object, type):
        return False
    names = object.__dict__.get("__abstractmethods__")
    if names is None and isinstance(object, abc.ABCMeta):
        graph_break()
    return bool(names)


_NO_ANNOTATIONS = words_of(inspect.get_annotations, 0)


def annotations_as_written(obj: Any) -> dict[str, Any]:
    """inspect.get_annotations without `eval_str`."""
    found = None
    if isinstance(obj, type):
        found = obj.__dict__.get("__annotations__")
        if found is None and obj.__dict__.get("__annotate_func__") is not None:
            found = obj.__annotations__  # made when they are read (PEP 649, Python 3.14)
        if isinstance(found, types.GetSetDescriptorType):
            found = None
    elif isinstance(obj, types.ModuleType) or callable(obj):
        found = getattr(obj, "__annotations__", None)
    else:
        raise TypeError(_NO_ANNOTATIONS.replace("0", repr(obj)))
    if found is not None and not isinstance(found, dict):
        raise ValueError(f"{obj!r}.__annotations__ is neither a dict nor None")
    return {} if found is None else dict(found)
