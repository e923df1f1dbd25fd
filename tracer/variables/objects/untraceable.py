"""Values that the tracer cannot look into. They are passed on as they are; any operation on one breaks the graph."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tracer.guards.containers import DictContains
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import GenericAttrSource

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.sources.base import Source


class OpaqueVariable(VariableTracker):
    def __init__(self, cls: type, source: Source) -> None:
        self.cls = cls
        self.source: Source = source

    def describe(self) -> str:
        return f"OpaqueVariable({self.cls.__qualname__}, {self.source.name})"

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        return None if other is self or (other.is_none()) else super().get_attr(tx, op)  # breaks the graph


class ThreadLocalVariable(OpaqueVariable):
    """A `threading.local`. The trace and the guards read the attributes that it has in the current thread."""

    def __init__(self, value: threading.local, source: Source) -> None:
        super().__init__(threading.local, source)
        self.value = value

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        pending = tx.effects.attribute(self, name)
        if pending is not None:
            return pending
        held = self.value.__dict__
        if name in held and not tx.effects.is_deleted(self, name):
            return tx.wrap(held[name], GenericAttrSource(self.source, name))
        if hasattr(threading.local, name):
            return super().get_attr(tx, name)
        if name not in held:
            tx.guard(DictContains(GenericAttrSource(self.source, "__dict__"), name, present=False))
        tx.raise_error(AttributeError, f"'_thread._local' object has no attribute {name!r}")

    def set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        if hasattr(threading.local, name):
            return super().set_attr(tx, name, value)
        tx.effects.store_attribute(self, name, value)
