"""Models of `weakref`."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import defines, type_name
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.builders.weak_references import WeakProxyVariable, WeakReferenceVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


@models(weakref.ref)
def _ref(tx: Tracer, target: VariableTracker, /, *callback: VariableTracker) -> VariableTracker:
    return _made(tx, weakref.ReferenceType, target, callback)


@models(weakref.proxy)
def _proxy(tx: Tracer, target: VariableTracker, /, *callback: VariableTracker) -> VariableTracker:
    is_callable = defines(target.python_type(), "__call__")
    return _made(tx, weakref.CallableProxyType if is_callable else weakref.ProxyType, target, callback)


def _made(tx: Tracer, kind: type, target: VariableTracker, callback: tuple[VariableTracker, ...]) -> VariableTracker:
    """An object has one weak reference and one weak proxy without a callback: every call returns the same."""
    if callback:
        unsupported("unsupported-call", value=f"a weak reference to {target.describe()} with a callback")
    made = tx.trace.weak_references.setdefault(target, {})
    if kind in made:
        return made[kind]
    cls = target.python_type()
    if not type.__dict__["__weakrefoffset__"].__get__(cls):
        tx.raise_error(TypeError, f"cannot create weak reference to {type_name(cls)!r} object")
    args = None, None, target, tx.break_step()
    made[kind] = WeakReferenceVariable(*args) if kind is weakref.ReferenceType else WeakProxyVariable(kind, *args)
    return made[kind]
