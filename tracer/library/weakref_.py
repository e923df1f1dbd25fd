"""Models of `weakref`."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import type_name
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.builders.weak_references import WeakReferenceVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


@models(weakref.ref)
def _ref(tx: Tracer, target: VariableTracker, /, *callback: VariableTracker) -> VariableTracker:
    """An object has one weak reference without a callback: every call returns the same."""
    if callback:
        unsupported("unsupported-call", value=f"weakref.ref of {target.describe()}")
    known = tx.trace.weak_references.get(target)
    if known is not None:
        return known
    cls = target.python_type()
    if not type.__dict__["__weakrefoffset__"].__get__(cls):
        tx.raise_error(TypeError, f"cannot create weak reference to {type_name(cls)!r} object")
    made = WeakReferenceVariable(None, None, target, tx.break_step())
    tx.trace.weak_references[target] = made
    return made
