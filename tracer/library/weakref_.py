"""Models of `weakref`."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import defines
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.builders.weak_containers import WeakContainerVariable
from tracer.variables.builders.weak_references import reference_to

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
    if callback:
        unsupported("unsupported-call", value=f"a weak reference to {target.describe()} with a callback")
    return reference_to(tx, kind, target)


def _model_of_container(cls: type) -> Any:
    def model(tx: Tracer, *content: VariableTracker) -> VariableTracker:
        like = set if cls is weakref.WeakSet else dict
        made = WeakContainerVariable(cls, tx.class_variable(like).call(tx, [], {}))
        if content:
            made.call_method(tx, "update", list(content), {})
        return made

    return model


for _cls in (weakref.WeakSet, weakref.WeakKeyDictionary, weakref.WeakValueDictionary):
    models(_cls)(_model_of_container(_cls))
