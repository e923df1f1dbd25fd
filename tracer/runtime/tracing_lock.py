"""The lock under which is traced: one frame at a time in a process, and frames that a trace itself calls on the same thread.

Where the owner waits for work on another thread (a backend with a time limit), that thread stands in for it: what it has
compiled is traced as it would be on the owner's.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
from collections.abc import Iterator
from typing import Any


@dataclasses.dataclass
class Stay:
    """What a host lets one other thread do, until it is over."""

    welcome: bool


class TracingLock:
    """A reentrant lock. A guest enters while its host, who has the lock, waits for it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._thread = threading.local()

    def __enter__(self) -> None:
        stay: Stay | None = getattr(self._thread, "stay", None)
        as_guest = stay is not None and stay.welcome
        if not as_guest:
            self._lock.acquire()
        self._mine().append(as_guest)

    def __exit__(self, *exception: Any) -> None:
        if not self._mine().pop():
            self._lock.release()

    def _mine(self) -> list[bool]:
        """How this thread entered, each time."""
        entered: list[bool] = self._thread.__dict__.setdefault("entered", [])
        return entered

    @contextlib.contextmanager
    def host(self, stay: Stay) -> Iterator[None]:
        """Within, who visits with this stay is a guest of this thread, if this one has the lock."""
        stay.welcome = bool(self._mine())
        try:
            yield
        finally:
            stay.welcome = False

    def visit(self, stay: Stay) -> None:
        """From now on this thread is the guest, for as long as it is welcome. (Its ident would not tell: another thread may get
        it before the host has seen that this one has ended.)"""
        self._thread.stay = stay

    def begin_again(self) -> None:
        """In a forked child, whose only thread is the one that forked: what others held is free."""
        if not self._mine():
            self._lock = threading.RLock()
        self._thread.stay = None


TRACING = TracingLock()
os.register_at_fork(after_in_child=TRACING.begin_again)
