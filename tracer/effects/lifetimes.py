"""Finalizers: whether code of the program (`__del__`, a weak reference's callback) runs when the last reference to a value goes.

The traced object itself is looked at. Only for locals is there a guard: elsewhere the answer decides on a graph break only, and a
break that was not needed is harmless.
"""

from __future__ import annotations

import gc
import threading
from collections import deque
from collections.abc import Iterable
from typing import Any

from tracer import _C
from tracer.graph_breaks import unsupported
from tracer.guards.lifetimes import MOST, has_callback, is_finalised, may_run_code
from tracer.guards.references import is_class
from tracer.protocol.lazy import Unwrapped
from tracer.protocol.variable import VariableTracker
from tracer.sources.reading import is_a, type_dict
from tracer.sources.roots import GlobalSource, ModuleGlobalsSource


def has_finalizer(value: VariableTracker) -> bool:
    """Whether a finalizer runs when this very value dies."""
    cls, real = getattr(value, "cls", None), getattr(value, "value", None)
    return isinstance(cls, type) and (is_finalised(cls) or has_callback(real))


def reaches_finalizer(value: VariableTracker | Unwrapped) -> bool:
    """Whether a finalizer may run when a value dies, its own or that of something which it holds."""
    todo, seen = deque([value]), set[VariableTracker]()
    while todo and len(seen) < MOST:
        part = todo.popleft()
        if isinstance(part, Unwrapped):
            if may_run_code(part.value):
                return True
        elif part not in seen:
            seen.add(part)
            if has_finalizer(part):
                return True
            todo.extend(part.holdings())
    return False


def _is_in_global(value: VariableTracker | Unwrapped) -> bool:
    """Whether a global holds this very object. What a trace does to globals is looked at in its end (`Effects`)."""
    return not isinstance(value, Unwrapped) and isinstance(value.source, (GlobalSource, ModuleGlobalsSource))


def check_release(values: Iterable[VariableTracker | Unwrapped], what: str) -> None:
    """To be called before a container drops values. Breaks the graph if a finalizer may run, so that CPython runs it in time."""
    if any(not _is_in_global(value) and reaches_finalizer(value) for value in values):
        unsupported("abandoned-generator", value=what)


def held_before(target: VariableTracker, name: str) -> Any:
    """The value that an attribute had before the frame ran; None if there was none."""
    owner = getattr(target, "value", None)
    if target.source is None or owner is None:
        return None
    if is_class(owner):  # isinstance may ask the object for its __class__
        return type_dict(owner).get(name)
    if is_a(owner, threading.local):
        return owner.__dict__.get(name)
    try:
        return _C.raw_attr(owner, name)
    except AttributeError:
        return None


def check_attribute_release(target: VariableTracker, name: str) -> None:
    """As `check_release`, for the value of an attribute that existed before the frame ran."""
    check_object_release(held_before(target, name), f"the attribute {name!r}")


def check_object_release(held: Any, what: str, step: int | None = None) -> None:
    """As `check_release`, for a real object that existed before the frame ran. `step`: at which the graph breaks, if not here."""
    if gc.is_tracked(held) and may_run_code(held):
        unsupported("abandoned-generator", break_step=step, value=what)
