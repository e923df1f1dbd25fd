"""The tracing lock: one thread of a process traces at a time; it may trace further frames while it traces one.

While the owner waits for work on another thread (a backend with a time limit), that thread may trace in its place.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
from collections.abc import Iterator
from typing import Any


@dataclasses.dataclass
class Delegation:
    """The permission of one other thread to enter the lock while its owner waits. `active`: whether it holds now."""

    active: bool


class TracingLock:
    """A reentrant lock that its owner can open for one other thread (`delegate`), without releasing it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._thread = threading.local()

    def __enter__(self) -> None:
        delegation: Delegation | None = getattr(self._thread, "delegation", None)
        by_delegation = delegation is not None and delegation.active
        if not by_delegation:
            self._lock.acquire()
        self._entries().append(by_delegation)

    def __exit__(self, *exception: Any) -> None:
        if not self._entries().pop():
            self._lock.release()

    def _entries(self) -> list[bool]:
        """For each time that this thread entered and did not leave: whether it did so by delegation."""
        entered: list[bool] = self._thread.__dict__.setdefault("entered", [])
        return entered

    @contextlib.contextmanager
    def delegate(self, delegation: Delegation) -> Iterator[None]:
        """Within, the thread that acts under this delegation may enter, if this thread owns the lock."""
        delegation.active = bool(self._entries())
        try:
            yield
        finally:
            delegation.active = False

    def act_for_owner(self, delegation: Delegation) -> None:
        """From now on this thread acts under the delegation, while that is active. (A thread's ident would not identify it: once
        the thread has ended, another one may get the same ident.)"""
        self._thread.delegation = delegation

    def start_anew_in_child(self) -> None:
        """In a forked child, whose only thread is the one that forked: a lock that another thread held is free."""
        if not self._entries():
            self._lock = threading.RLock()
        self._thread.delegation = None


TRACING = TracingLock()
os.register_at_fork(after_in_child=TRACING.start_anew_in_child)
