"""Models of `threading`: a trace can make a lock, as constructors of objects do. Only CPython takes and releases it."""

from __future__ import annotations

import _thread
import threading
from typing import TYPE_CHECKING, Any

from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen


class MadeLockVariable(VariableTracker):
    """threading.Lock() or threading.RLock()"""

    def __init__(self, make: Any) -> None:
        self.make = make

    def python_type(self) -> type:
        return _thread.RLock if self.make is _thread.RLock else _thread.LockType

    def hash_key(self, tx: Tracer) -> Any:
        return self

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(self.make)


@models(threading.Lock)
def _lock(tx: Tracer) -> VariableTracker:
    return MadeLockVariable(threading.Lock)


@models(threading.RLock, _thread.RLock)
def _rlock(tx: Tracer) -> VariableTracker:
    return MadeLockVariable(_thread.RLock)
