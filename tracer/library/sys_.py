"""Models of `sys`: the exception that is being handled."""
from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tracer.library.registry import foldable, models
from tracer.variables.base import VariableTracker
from tracer.variables.constant import NONE
from tracer.variables.exceptions import ExceptionVariable
from tracer.variables.sequences import TupleVariable

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer


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
