"""CPython's cyclic garbage collector while a frame is traced.

A trace makes many thousand objects that live until its end. Each collection looks through the young ones in vain, and one in a
hundred through all objects of the program. Within `seldom_collecting` the collector runs when many more objects were made than by
default, so that memory stays bounded.
"""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator

OBJECTS = 200_000  # that are made between two collections
_before: tuple[int, int, int] | None = None  # what the program has set, while that is changed


def _raise() -> bool:
    """-> whether it is changed now. A program that collects by hand, or more seldom, keeps what it has set."""
    global _before
    now = gc.get_threshold()
    if _before is not None or not 0 < now[0] < OBJECTS:
        return False
    _before = now
    gc.set_threshold(OBJECTS, *now[1:])
    return True


def _restore() -> bool:
    """-> whether it was changed. What another thread has set meanwhile stays."""
    global _before
    before, _before = _before, None
    if before is not None and gc.get_threshold() == (OBJECTS, *before[1:]):
        gc.set_threshold(*before)
    return before is not None


@contextlib.contextmanager
def seldom_collecting() -> Iterator[None]:
    """Within, the collector runs seldom. Entered under the tracing lock."""
    changed = _raise()
    try:
        yield
    finally:
        if changed:
            _restore()


@contextlib.contextmanager
def collecting_as_before() -> Iterator[None]:
    """Within `seldom_collecting`: around code that is not the tracer's and may take long, such as a backend."""
    changed = _restore()
    try:
        yield
    finally:
        if changed:
            _raise()


os.register_at_fork(after_in_child=_restore)
