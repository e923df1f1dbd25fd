"""What belongs to exceptions beside the exception object itself, which is a `UserObjectVariable`."""
from __future__ import annotations

import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracer.variables.base import VariableTracker

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer


class TracebackVariable(VariableTracker):
    """The traceback of an exception: it can be passed on, and breaks the graph when somebody looks into it."""

    def __init__(self, exception: VariableTracker) -> None:
        self.exception = exception

    def python_type(self) -> type:
        return types.TracebackType

    def truth(self, tx: Tracer) -> bool:
        return True

    def children(self) -> Iterable[VariableTracker]:
        return (self.exception,)

    def reconstruct(self, cg: Any) -> None:
        cg.load(self.exception)
        cg.load_attr("__traceback__")


class HandledBefore(VariableTracker):
    """The stack slot in which a frame keeps the exception that was handled before `present`."""

    def __init__(self, value: VariableTracker | None, present: VariableTracker) -> None:
        self.value = value
        self.present = present

    def children(self) -> Iterable[VariableTracker]:
        return () if self.value is None else (self.value,)
