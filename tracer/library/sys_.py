"""Models of `sys`: the exception that is being handled, and frames."""

from __future__ import annotations

import sys
import typing
from typing import TYPE_CHECKING

from tracer.graph_breaks import unsupported
from tracer.protocol.models import foldable, models
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.exceptions.exceptions import ExceptionVariable
from tracer.variables.values.constant import NONE, ONE, ZERO

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


def _module_of_frame(tx: Tracer, depth: VariableTracker) -> VariableTracker:
    """The name of the module of the frame that is `depth` frames up; 0 is that of the frame that asks."""
    frames = tx.frames()
    level = depth.constant() if depth.is_constant() else None
    if type(level) is not int or not 0 <= level < len(frames) or type(frames[-1 - level].globals.get("__name__")) is not str:
        unsupported("frame-introspection", function="sys._getframemodulename")
    return tx.literal(frames[-1 - level].globals["__name__"])


@models(vars(typing)["_caller"])  # by which it finds the module that makes a class
def _module_of_caller(tx: Tracer, depth: VariableTracker = ONE, default: VariableTracker = NONE) -> VariableTracker:
    return _module_of_frame(tx, depth)


if hasattr(sys, "_getframemodulename"):  # from Python 3.12 on

    @models(sys._getframemodulename)
    def _getframemodulename(tx: Tracer, depth: VariableTracker = ZERO) -> VariableTracker:
        return _module_of_frame(tx, depth)
