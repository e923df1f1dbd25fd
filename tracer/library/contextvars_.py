"""Models of `contextvars`: context variables that the program makes while it is traced."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING

from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.builders.context_variables import MadeContextVarVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


@models(contextvars.ContextVar)
def _context_variable(tx: Tracer, name: VariableTracker, /, *, default: VariableTracker | None = None) -> VariableTracker:
    if not name.is_constant() or type(name.constant()) is not str:
        tx.raise_error(TypeError, "context variable name must be a str")
    return MadeContextVarVariable(name.constant(), default)
