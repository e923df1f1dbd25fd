"""Values that the tracer cannot look into: they are passed on as they are, and any operation on one breaks the graph."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracer.variables.base import VariableTracker

if TYPE_CHECKING:
    from tracer.sources import Source
    from tracer.variables.protocol import Tracer


class OpaqueVariable(VariableTracker):
    def __init__(self, cls: type, source: Source) -> None:
        self.cls = cls
        self.source: Source = source

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        return f"OpaqueVariable({self.cls.__qualname__}, {self.source.name})"

    __repr__ = describe

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        return None if other is self or (other.is_none()) else self._unknown(op)

    def _unknown(self, op: str) -> Any:
        return super().get_attr(None, op)  # type: ignore[arg-type]  # breaks the graph
