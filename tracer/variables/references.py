"""Weak references and context variables: what they lead to is read through them, and guarded there."""
from __future__ import annotations

import contextvars
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracer import guards
from tracer.graph_breaks import unsupported
from tracer.sources import ContextVarSource, Source, WeakTargetSource
from tracer.variables.base import VariableTracker
from tracer.variables.builder import VariableBuilder, tracks
from tracer.variables.constant import NONE
from tracer.variables.lazy import Unwrapped

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer


class WeakReferenceVariable(VariableTracker):
    """A weakref.ref: one that existed, or of an object that existed, which lives on whatever the trace does."""

    def __init__(self, value: Any, source: Source | None, target: VariableTracker | None = None) -> None:
        self.value = value
        self.source = source
        self.target = target

    def python_type(self) -> type:
        return weakref.ReferenceType

    def identity(self) -> Any:
        return self if self.value is None else self.value

    def truth(self, tx: Tracer) -> bool:
        return True

    def children(self) -> Iterable[VariableTracker]:
        return () if self.target is None else (self.target,)

    def call(self, tx: Tracer, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> VariableTracker:
        if args or kwargs:
            unsupported("call-arguments", error="a weak reference takes no arguments")
        if self.target is None:
            assert self.source is not None
            target = self.value()
            if target is None:
                tx.guard(guards.WeakrefAlive(self.source, False))
                return NONE
            self.target = tx.wrap(target, WeakTargetSource(self.source))
        if not _is_held(tx, self.target):
            unsupported("unsupported-call", value="a weak reference to an argument that the frame has dropped")
        return self.target

    def reconstruct(self, cg: Any) -> None:
        assert self.target is not None
        cg.call_object(weakref.ref, lambda: cg.load(self.target))


def _is_held(tx: Tracer, target: VariableTracker) -> bool:
    """False for an argument of the frame that no variable and no operand of the open frames holds any more."""
    obj = target.identity()
    if not any(argument is obj for argument in tx.trace.builder.arguments):
        return True
    for frame in tx.frames():
        cells = [cell.contents for cell in frame.cells.values()]
        for value in (*frame.stack, *frame.locals.values(), *cells):
            if value is target or (isinstance(value, Unwrapped) and value.value is obj):
                return True
    return False


class ContextVarVariable(VariableTracker):
    """A contextvars.ContextVar; storing in it breaks the graph."""

    def __init__(self, value: contextvars.ContextVar[Any], source: Source) -> None:
        self.value = value
        self.source: Source = source

    def python_type(self) -> type:
        return contextvars.ContextVar

    def describe(self) -> str:
        return f"ContextVarVariable({self.value.name})"

    __repr__ = describe

    def identity(self) -> Any:
        return self.value

    def hash_key(self, tx: Tracer) -> Any:
        return self.value

    def truth(self, tx: Tracer) -> bool:
        return True

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in ("get", "set", "reset"):
            return tx.bound_builtin_method(self, name)  # type: ignore[no-any-return]
        return super().get_attr(tx, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        is_set = self.value in contextvars.copy_context()
        if name != "get" or kwargs or (args and not is_set):
            unsupported("unsupported-method", value=self.describe(), name=name)
        try:
            value = self.value.get()
        except LookupError:
            unsupported("unsupported-method", value=self.describe(), name=name)
        return tx.wrap(value, ContextVarSource(self.source))


@tracks(weakref.ReferenceType)
def _weak_reference(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(guards.TypeMatch(source, weakref.ReferenceType))
    return builder.remember(value, WeakReferenceVariable(value, source))  # type: ignore[no-any-return]


@tracks(contextvars.ContextVar)
def _context_variable(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(guards.IdMatch(source, value))
    return builder.remember(value, ContextVarVariable(value, source))  # type: ignore[no-any-return]
