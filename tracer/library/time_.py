"""Models of `time`: reading a clock and sleeping break the graph, so that CPython does it at that place in the program. What is
made of known times is known."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NoReturn

from tracer.graph_breaks import unsupported
from tracer.library.datetime_ import checked_format
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.values.constant import fold
from tracer.variables.values.dates import is_in_any_language

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_CLOCKS = ("time", "perf_counter", "monotonic", "process_time", "thread_time")


def _clock(name: str) -> Any:
    def model(tx: Tracer, *args: VariableTracker) -> NoReturn:
        unsupported("clock", name=f"time.{name}")

    return model


for _name in (*_CLOCKS, *(f"{clock}_ns" for clock in _CLOCKS), "sleep"):
    if hasattr(time, _name):
        models(getattr(time, _name))(_clock(_name))


@models(time.gmtime)
def _gmtime(tx: Tracer, *seconds: VariableTracker) -> VariableTracker:
    given = [value.constant() for value in seconds]
    if not given or given == [None]:
        unsupported("clock", name="time.gmtime")
    return fold(tx, time.gmtime, *given)


@models(time.strftime)
def _strftime(tx: Tracer, format: VariableTracker, *moment: VariableTracker) -> VariableTracker:
    if not moment:
        unsupported("clock", name="time.strftime")
    if not is_in_any_language(format.constant()):
        unsupported("unsupported-builtin", function=f"time.strftime with {format.describe()}")
    return fold(tx, time.strftime, format.constant(), moment[0].constant())


@models(time.strptime)
def _strptime(tx: Tracer, string: VariableTracker, format: VariableTracker) -> VariableTracker:
    return fold(tx, time.strptime, string.constant(), checked_format(format))
