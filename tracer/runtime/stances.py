"""Stances: whether calls of compiled functions on this thread use entries, and whether misses are traced.

The extension knows three modes (`_C.set_stance_c`); what the other stances do at a miss is in `misses`.
"""

from __future__ import annotations

import threading

from tracer import _C

NORMAL, RUN_ONLY, DISABLED = 0, 1, 2  # modes of tracer._C.set_stance_c

STANCES: dict[str, int] = {
    "default": NORMAL,
    "force_eager": DISABLED,  # the original runs, whatever there is
    "eager_on_recompile": RUN_ONLY,  # entries that match are used; where none does, the original runs
    "fail_on_recompile": NORMAL,  # a miss is a RecompileError
    "eager_then_compile": NORMAL,  # the first call runs the original, and shows which sizes vary
}


class _Current(threading.local):
    name = "default"


_current = _Current()


def current() -> str:
    """The stance of this thread."""
    return _current.name


def switch(name: str) -> tuple[str, int]:
    """Takes a stance on this thread; returns what `restore` needs."""
    before = _current.name
    _current.name = name
    return before, _C.set_stance_c(STANCES[name])


def restore(before: tuple[str, int]) -> None:
    _current.name = before[0]
    _C.set_stance_c(before[1])
