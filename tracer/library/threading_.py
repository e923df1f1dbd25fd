"""Models of `threading`: a trace can make a lock, as constructors of objects do, and takes and releases the locks that it made:
no other thread knows them. A lock that existed before is taken by CPython alone."""

from __future__ import annotations

import _thread
import threading
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.guards.identity import TypeMatch
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.sources.base import Source
from tracer.variables.builders.builder import VariableBuilder, tracks
from tracer.variables.objects.untraceable import OpaqueVariable
from tracer.variables.values.constant import NONE, TRUE, NamedMethodVariable, boolean

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen


class MadeLockVariable(VariableTracker):
    """threading.Lock() or threading.RLock(); `held` says how often the trace has taken it."""

    def __init__(self, make: Any) -> None:
        self.make = make
        self.held = 0

    def python_type(self) -> type:
        return _thread.RLock if self.make is _thread.RLock else _thread.LockType

    def hash_key(self, tx: Tracer) -> Any:
        return self

    def truth(self, tx: Tracer) -> bool:
        return True

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        return NamedMethodVariable(self, name) if name in _METHODS else super().get_attr(tx, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name == "locked" and self.make is not _thread.RLock and not args and not kwargs:
            return boolean(self.held > 0)
        again = self.held > 0 and self.make is not _thread.RLock
        if name in ("acquire", "__enter__") and not again and not kwargs and (not args or name == "__enter__"):
            tx.effects.mutate(self)
            self.held += 1
            return TRUE
        if name in ("release", "__exit__") and self.held and not kwargs and (not args or name == "__exit__"):
            tx.effects.mutate(self)
            self.held -= 1
            return NONE
        unsupported("unsupported-method", value=self.describe(), name=name)  # it would wait, or raise

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(_taken, lambda: cg.call_object(self.make), lambda: cg.load_const(self.held))


_METHODS = ("acquire", "release", "locked", "__enter__", "__exit__")


class ExistingLockVariable(OpaqueVariable):
    """A lock that other threads may know."""

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in _METHODS:
            unsupported("lock", value=self.source.name)
        return super().get_attr(tx, name)


@tracks(_thread.LockType, _thread.RLock)
def _existing_lock(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(TypeMatch(source, type(value)))
    return builder.remember(value, ExistingLockVariable(type(value), source))


def _taken(lock: Any, times: int) -> Any:
    """Called by output code: the lock, held as often as the trace has taken it."""
    for _ in range(times):
        lock.acquire()
    return lock


@models(threading.Lock)
def _lock(tx: Tracer) -> VariableTracker:
    return MadeLockVariable(threading.Lock)


@models(threading.RLock, _thread.RLock)
def _rlock(tx: Tracer) -> VariableTracker:
    return MadeLockVariable(_thread.RLock)
