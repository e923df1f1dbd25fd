"""What is told of a graph break: statistics, listeners, the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer import errors, logs, metrics
from tracer.metrics import counters
from tracer.runtime import log_texts

if TYPE_CHECKING:
    from tracer.interpreter.trace import Trace
    from tracer.runtime.region_state import RegionState


def report_break(region: RegionState, error: errors.Unsupported, trace: Trace) -> None:
    """Tells everybody who listens that a trace of this region breaks the graph because of `error`."""
    region.stats["break"] += 1
    if metrics.listeners:
        code = None if trace.frame is None else trace.frame.frames()[0].code
        about = {"state": region, "code": code, "error": error}
        metrics.notify(metrics.Event("break", region.name, str(error.where or ""), str(error), 0.0, about, reason=error.id))
    counters["graph_break"][error.id] += 1
    logs.emit("graph_breaks", lambda: log_texts.graph_break(error))
    if region.on_break is not None:
        region.on_break(error)
