"""Values that the tracer cannot look into. They are passed on as they are; any operation on one breaks the graph."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

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
        held = self.value.__dict__
        if name not in held:
            return super().get_attr(tx, name)
        return tx.wrap(held[name], GenericAttrSource(self.source, name))
