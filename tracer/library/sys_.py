"""Models of `sys`: the exception that is being handled, and frames."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tracer.graph_breaks import unsupported
from tracer.protocol.models import foldable, models
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.exceptions.exceptions import ExceptionVariable
from tracer.variables.values.constant import NONE

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


foldable(sys.intern)


@models(sys.exception)
def _exception(tx: Tracer) -> VariableTracker:
    return tx.handled_exception() or NONE


@models(sys.exc_info)
def _exc_info(tx: Tracer) -> VariableTracker:
    handled = tx.handled_exception()
    if handled is None:
        return TupleVariable([NONE, NONE, NONE])
    assert isinstance(handled, ExceptionVariable)
    return TupleVariable([tx.class_variable(handled.cls, handled), handled, handled.field(tx, "__traceback__")])


@models(sys._getframe)
def _getframe(tx: Tracer, depth: VariableTracker | None = None, /) -> VariableTracker:
    """Breaks the graph at the call that the root frame is in: CPython runs that call, so that the inlined frames exist. If the
    program asks for the root frame itself, CPython runs all of it, because output code has other locals."""
    frames = tx.frames()
    levels = 0 if depth is None else depth.constant() if depth.is_constant() else len(frames)
    of_root = levels == len(frames) - 1
    unsupported("frame-introspection", function="sys._getframe", break_step=0 if of_root else frames[0].step)
