"""Ends threads of the tracer that are still at work when the process ends.

Python stops a daemon thread where it next asks for the GIL. That aborts the process if it is called by functions of C++ that must
not be left so, as torch has. So an exception is raised in the thread, at its next instruction, while Python still runs.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterable

LAST_WAIT = 1.0  # seconds; what a thread does in C may take longer, and is left to the end of the process
_BETWEEN = 0.05


def end_now(threads: Iterable[threading.Thread]) -> None:
    """Raises SystemExit in these threads, and waits for them for up to LAST_WAIT seconds in all."""
    ends = time.monotonic() + LAST_WAIT
    running = list(threads)
    while running and time.monotonic() < ends:
        for thread in running:
            if thread.ident is not None:  # again, as code of the program may have caught it
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit))
        running[0].join(_BETWEEN)
        running = [thread for thread in running if thread.is_alive()]
