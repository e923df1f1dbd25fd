"""The lock under which is traced: one frame at a time in a process, and frames that a trace itself calls on the same thread.

Where the owner waits for work on another thread (a backend with a time limit), that thread stands in for it: what it has
compiled is traced as it would be on the owner's.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from typing import Any


class TracingLock:
    """A reentrant lock. A guest enters while its host, who has the lock, waits for it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._guests: set[int] = set()
        self._entered = threading.local()

    def __enter__(self) -> None:
        as_guest = threading.get_ident() in self._guests
        if not as_guest:
            self._lock.acquire()
        self._mine().append(as_guest)

    def __exit__(self, *exception: Any) -> None:
        if not self._mine().pop():
            self._lock.release()

    def _mine(self) -> list[bool]:
        """How this thread entered, each time."""
        entered: list[bool] = self._entered.__dict__.setdefault("how", [])
        return entered

    @contextlib.contextmanager
    def host(self, ident: int) -> Iterator[None]:
        """Within, the thread is a guest of this one, if this one has the lock."""
        if not self._mine():
            yield
            return
        self._guests.add(ident)
        try:
            yield
        finally:
            self._guests.discard(ident)

    def begin_again(self) -> None:
        """In a forked child, whose only thread is the one that forked: what others held is free."""
        if not self._mine():
            self._lock = threading.RLock()
        self._guests.clear()


TRACING = TracingLock()
os.register_at_fork(after_in_child=TRACING.begin_again)
