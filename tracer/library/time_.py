"""Models of `time`: reading a clock and sleeping break the graph, so that CPython does it at that place in the program."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NoReturn

from tracer.graph_breaks import unsupported
from tracer.protocol.models import models

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.protocol.variable import VariableTracker

_CLOCKS = ("time", "perf_counter", "monotonic", "process_time", "thread_time")


def _clock(name: str) -> Any:
    def model(tx: Tracer, *args: VariableTracker) -> NoReturn:
        unsupported("clock", name=f"time.{name}")

    return model


for _name in (*_CLOCKS, *(f"{clock}_ns" for clock in _CLOCKS), "sleep"):
    if hasattr(time, _name):
        models(getattr(time, _name))(_clock(_name))
