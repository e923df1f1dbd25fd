"""Values that the tracer cannot look into. They are passed on as they are; any operation on one breaks the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.protocol.variable import VariableTracker

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
