"""Stances: whether calls of compiled functions use entries, and whether misses are traced. A thread that has taken none has that
of the process.

The extension knows three modes (`_C.set_stance_c`); what the other stances do at a miss is in `misses`.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tracer import _C
from tracer.runtime.tracing_lock import TRACING

if TYPE_CHECKING:
    from tracer.backends.calling import Backend

OF_PROCESS, NORMAL, RUN_ONLY, DISABLED = -1, 0, 1, 2  # modes of tracer._C.set_stance_c

STANCES: dict[str, int] = {
    "default": NORMAL,
    "force_eager": DISABLED,  # the original runs, whatever there is
    "eager_on_recompile": RUN_ONLY,  # entries that match are used; where none does, the original runs
    "fail_on_recompile": NORMAL,  # a miss is a RecompileError
    "eager_then_compile": NORMAL,  # the first call runs the original, and shows which sizes vary
}


Before = tuple[str, int]


class _Taken(threading.local):
    name = "default"


_taken = _Taken()
_of_process = "default"
_forced: Backend | None = None


def current() -> str:
    """The stance that holds on this thread."""
    return _of_process if _taken.name == "default" else _taken.name


def switch(name: str) -> Before:
    """Takes a stance on this thread; "default" is that of the process. Returns what `restore` needs."""
    before, _taken.name = _taken.name, name
    return before, _C.set_stance_c(OF_PROCESS if name == "default" else STANCES[name])


def restore(before: Before) -> None:
    _taken.name = before[0]
    _C.set_stance_c(before[1])


def switch_all(name: str) -> tuple[Before, str]:
    """Takes a stance on this thread and all others that have taken none. Returns what `restore_all` needs."""
    global _of_process
    before, _of_process = _of_process, name
    _C.set_stance_of_process(STANCES[name])
    return switch("default"), before


def restore_all(before: tuple[Before, str]) -> None:
    of_thread, of_process = before
    switch_all(of_process)
    restore(of_thread)


# -- the backend -------------------------------------------------------------------------------------------------------


def forced() -> Backend | None:
    """The backend that all regions compile by, whatever they were decorated with; None: each has its own."""
    return _forced


def force(backend: Backend | None) -> Backend | None:
    """Has all regions of the process use a backend, or each its own again; returns what was forced before. Entries are kept for
    each forced object apart, and serve only while it is in force."""
    global _forced
    if backend is _forced:
        return backend
    with TRACING:  # no trace sees two backends
        before, _forced = _forced, backend
        _C.force_compiler(backend)
    return before
