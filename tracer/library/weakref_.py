"""Models of `weakref`."""
from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from tracer.graph_breaks import unsupported
from tracer.library.registry import models
from tracer.variables.base import VariableTracker
from tracer.variables.references import WeakReferenceVariable

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer


@models(weakref.ref)
def _ref(tx: Tracer, target: VariableTracker, /, *callback: VariableTracker) -> VariableTracker:
    """Only of what existed before: an object that the trace makes may die at any time."""
    if callback or target.source is None:
        unsupported("unsupported-call", value=f"weakref.ref of {target.describe()}")
    return WeakReferenceVariable(None, None, target)
