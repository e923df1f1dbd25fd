"""Tells coverage tools which lines a trace has captured: they run in a graph from then on, without events of CPython's.

Python 3.12 brings `sys.monitoring`. A tool there that holds COVERAGE_ID asks which lines have run, and not when: it is told of
those of each trace, once. One that holds DEBUGGER_ID sees the program as it was written (csrc/compat.h, `thread_is_debugged`). A
profiler sees what runs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from types import CodeType
from typing import Any

_monitoring: Any = getattr(sys, "monitoring", None)
Lines = dict[tuple[CodeType, int | None], None]  # (code, line), in the order in which they are come to


def begin() -> Lines | None:
    """Where a trace is to note the lines that it comes to; None where no tool wants to know."""
    return None if _monitoring is None or _monitoring.get_tool(_monitoring.COVERAGE_ID) is None else {}


def tell(lines: Iterable[tuple[CodeType, int | None]]) -> None:
    """Calls what the coverage tool has registered for the start of a function and for a line, as CPython does."""
    tool, events = _monitoring.COVERAGE_ID, _monitoring.events
    of_codes: dict[CodeType, list[int]] = {}
    for code, line in lines:
        of_codes.setdefault(code, [])
        if line is not None:
            of_codes[code].append(line)
    for code, found in of_codes.items():
        for started in _asked_for(tool, code, events.PY_START):
            started(code, 0)  # which may ask for the lines of this code
        for ran in _asked_for(tool, code, events.LINE):
            for line in found:
                ran(code, line)


def _asked_for(tool: int, code: CodeType, event: int) -> Iterator[Callable[..., Any]]:
    """The function that the tool has registered for an event, if it wants that of this code."""
    if event & (_monitoring.get_events(tool) | _monitoring.get_local_events(tool, code)):
        callback = _monitoring.register_callback(tool, event, None)  # the only way to ask for it
        _monitoring.register_callback(tool, event, callback)
        if callback is not None:
            yield callback
