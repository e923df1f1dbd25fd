"""Looking class attributes up while tracing; what is found becomes a guard.

Lookups happen everywhere, also where no frame is at hand, so the findings of the running trace are found by thread.
"""

from __future__ import annotations

import contextlib
import threading
import types
from collections.abc import Iterator
from typing import Any

from tracer.guards.unchanged import ABSENT, Findings, find

MISSING = ABSENT


class _Running(threading.local):
    findings: Findings | None = None


_running = _Running()


@contextlib.contextmanager
def recorded(findings: Findings) -> Iterator[None]:
    """Within, what is looked up on this thread is noted there."""
    outer, _running.findings = _running.findings, findings
    try:
        yield
    finally:
        _running.findings = outer


def lookup(cls: type, name: str, after: type | None = None) -> tuple[type | None, Any]:
    """Where in the MRO of `cls` (behind `after`, as super() looks) a class attribute stands, and the raw value there."""
    owner, value = find(cls, name, after)
    if _running.findings is not None:
        _running.findings.note(cls, name, owner, value, after)
    return owner, value


def rely_on_bases(cls: type) -> None:
    """What is decided now depends on the bases of a class."""
    if _running.findings is not None:
        _running.findings.note_class(cls)


def rely_on_code(function: types.FunctionType) -> None:
    """What is decided now depends on the code of a function."""
    if _running.findings is not None:
        _running.findings.note_function(function)
