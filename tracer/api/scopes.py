"""`Scope`: a setting of the running thread that is switched for a `with` block or for the calls of a function."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracer import _C

if TYPE_CHECKING:
    from tracer.runtime.region_state import RegionState


class _Entered(threading.local):
    """What the `with` blocks of this thread have to restore when they end, the innermost last."""

    def __init__(self) -> None:
        self.states: list[RegionState] = []


_entered = _Entered()


class Scope:
    """Switches a setting of the running thread, and back. One object may be used by many threads and in nested blocks."""

    def switch(self) -> Any:
        """Makes the switch; returns what `restore` needs."""
        raise NotImplementedError

    def restore(self, before: Any) -> None:
        raise NotImplementedError

    def __enter__(self) -> None:
        _entered.states.append(self.switch())

    def __exit__(self, *exc_info: object) -> None:
        self.restore(_entered.states.pop())

    def wrap(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The function, run inside the scope."""
        switch, restore = self.switch, self.restore

        def scoped(*args: Any, **kwargs: Any) -> Any:
            before = switch()
            try:
                return fn(*args, **kwargs)
            finally:
                restore(before)

        _C.never_trace(scoped.__code__)
        return functools.wraps(fn)(scoped)
