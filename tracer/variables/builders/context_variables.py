"""Context variables: read and guarded where they are, set after the graph."""

from __future__ import annotations

import contextvars
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.guards.identity import ContextVarIsSet, IdMatch
from tracer.protocol.variable import RealObjectVariable, VariableTracker
from tracer.sources.attributes import AttrSource, ContextVarSource
from tracer.sources.base import Source
from tracer.sources.roots import ModuleGlobalsSource
from tracer.variables.builders.builder import VariableBuilder, tracks
from tracer.variables.values.constant import NONE, ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen


class ContextVarVariable(RealObjectVariable):
    """A contextvars.ContextVar. `pending` is the value that the trace has set it to."""

    value: contextvars.ContextVar[Any]

    def __init__(self, value: contextvars.ContextVar[Any], source: Source | None) -> None:
        super().__init__(value, source)
        self.pending: VariableTracker | None = None

    def describe(self) -> str:
        return f"ContextVarVariable({self.value.name})"

    def children(self) -> Iterable[VariableTracker]:
        return () if self.pending is None else (self.pending,)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in ("get", "set", "reset"):
            return tx.bound_builtin_method(self, name)
        if name == "name":
            return ConstantVariable(self.value.name)
        return super().get_attr(tx, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if not kwargs and name == "get" and len(args) < 2:
            return self._get(tx, *args)
        if not kwargs and name == "set" and len(args) == 1:
            return self._set(tx, args[0])
        if not kwargs and name == "reset" and len(args) == 1:
            return self._reset(tx, args[0])
        unsupported("unsupported-method", value=self.describe(), name=name)

    def _get(self, tx: Tracer, default: VariableTracker | None = None) -> VariableTracker:
        if self.pending is not None:
            return self.pending
        if default is not None and not self._was_set(tx):
            return default
        return self._read(tx)

    def _was_set(self, tx: Tracer) -> bool:
        """Whether it had a value in this context before the trace."""
        assert self.source is not None
        is_set = self.value in contextvars.copy_context()
        tx.guard(ContextVarIsSet(self.source, is_set))
        return is_set

    def _read(self, tx: Tracer) -> VariableTracker:
        assert self.source is not None
        try:
            value = self.value.get()
        except LookupError:
            tx.guard(ContextVarIsSet(self.source, False))
            tx.raise_value(tx.new_exception(LookupError, self))
        return tx.wrap(value, ContextVarSource(self.source))

    def former(self, tx: Tracer) -> VariableTracker:
        """The `old_value` of the token of the first time that the trace set it."""
        return self._read(tx) if self._was_set(tx) else tx.wrap(contextvars.Token.MISSING, _MISSING)

    def _set(self, tx: Tracer, value: VariableTracker) -> VariableTracker:
        token = ContextTokenVariable(self, self.pending)
        tx.effects.mutate(self)
        self.pending = value
        return token

    def _reset(self, tx: Tracer, token: VariableTracker) -> VariableTracker:
        if not isinstance(token, ContextTokenVariable) or token.var is not self or token.is_used:
            unsupported("unsupported-method", value=self.describe(), name=f"reset to {token.describe()}")
        tx.effects.mutate(self)
        token.is_used = True
        self.pending = token.before
        return NONE

    def replay(self, cg: ValueCodegen) -> None:
        pending = self.pending
        if pending is not None:
            cg.call_object(contextvars.ContextVar.set, lambda: cg.load(self), lambda: cg.load(pending))
            cg.asm.pop()


class MadeContextVarVariable(ContextVarVariable):
    """A context variable that the trace makes; `default` is its value where it is not set."""

    def __init__(self, name: str, default: VariableTracker | None) -> None:
        super().__init__(contextvars.ContextVar(name), None)
        self.default = default

    def identity(self) -> Any:
        return self

    def children(self) -> Iterable[VariableTracker]:
        return (*super().children(), *(() if self.default is None else (self.default,)))

    def _was_set(self, tx: Tracer) -> bool:
        return False

    def _read(self, tx: Tracer) -> VariableTracker:
        return self.default or tx.raise_value(tx.new_exception(LookupError, self))

    def reconstruct(self, cg: ValueCodegen) -> None:
        default = self.default
        named: dict[str, Any] = {} if default is None else {"default": lambda: cg.load(default)}
        cg.call_object(contextvars.ContextVar, lambda: cg.load_const(self.value.name), **named)

    def fill(self, cg: ValueCodegen) -> None:
        self.replay(cg)


class ContextTokenVariable(VariableTracker):
    """What `ContextVar.set` gave in the trace. `before`: what the trace had set the variable to before, if anything."""

    cls = contextvars.Token

    def __init__(self, var: ContextVarVariable, before: VariableTracker | None) -> None:
        self.var = var
        self.before = before
        self.is_used = False

    def children(self) -> Iterable[VariableTracker]:
        return (self.var,) if self.before is None else (self.var, self.before)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name == "var":
            return self.var
        if name == "old_value":
            return self.var.former(tx) if self.before is None else self.before
        return super().get_attr(tx, name)


_MISSING = AttrSource(ModuleGlobalsSource("contextvars", "Token"), "MISSING")


@tracks(contextvars.ContextVar)
def _context_variable(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(IdMatch(source, value))
    return builder.remember(value, ContextVarVariable(value, source))
