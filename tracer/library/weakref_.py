"""Models of `weakref`."""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from tracer.graph_breaks import unsupported
from tracer.library.registry import models
from tracer.variables.base import VariableTracker
from tracer.variables.lookups import type_name
from tracer.variables.references import WeakReferenceVariable

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer


@models(weakref.ref)
def _ref(tx: Tracer, target: VariableTracker, /, *callback: VariableTracker) -> VariableTracker:
    """Only of what existed before: an object that the trace makes may die at any time."""
    if callback or target.source is None:
        unsupported("unsupported-call", value=f"weakref.ref of {target.describe()}")
    cls = target.python_type()
    if not type.__dict__["__weakrefoffset__"].__get__(cls):
        tx.raise_error(TypeError, f"cannot create weak reference to {type_name(cls)!r} object")
    return WeakReferenceVariable(None, None, target)
