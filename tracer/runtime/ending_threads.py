"""Ends threads of the tracer that are still at work when the process ends.

Python stops a daemon thread where it next asks for the GIL. That aborts the process if it is called by functions of C++ that must
not be left so, as torch has. So an exception is raised in the thread, at its next instruction, while Python still runs.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Iterable

LAST_WAIT = 1.0  # seconds; what a thread does in C may take longer, and is left to the end of the process
_BETWEEN = 0.05


def end_now(threads: Iterable[threading.Thread]) -> None:
    """Raises SystemExit in these threads, and waits for them for up to LAST_WAIT seconds in all.

    An error in a `__del__` that runs in one of them is not reported: its object may have been left in the middle of `__init__`.
    """
    ends = time.monotonic() + LAST_WAIT
    running = list(threads)
    _ignore_unraisable({thread.ident for thread in running})
    while running and time.monotonic() < ends:
        for thread in running:
            if thread.ident is not None:  # again, as code of the program may have caught it
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
        running[0].join(_BETWEEN)
        running = [thread for thread in running if thread.is_alive()]


def _ignore_unraisable(idents: set[int | None]) -> None:
    """Reports no more what cannot be raised in these threads; for the rest of the process, which ends."""
    report = sys.unraisablehook

    def report_of_others(unraisable: sys.UnraisableHookArgs) -> None:
        if threading.get_ident() not in idents:
            report(unraisable)

    if idents:
        sys.unraisablehook = report_of_others
