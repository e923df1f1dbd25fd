"""Models of `ast`: literals in a text that is known while tracing."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tracer.graph_breaks import unsupported
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


@models(ast.literal_eval)
def _literal_eval(tx: Tracer, text: VariableTracker, /) -> VariableTracker:
    if not text.is_constant() or type(text.constant()) is not str:
        unsupported("unsupported-builtin", function=f"ast.literal_eval of {text.describe()}")
    try:
        value = ast.literal_eval(text.constant())
    except Exception:  # CPython raises it instead
        unsupported("unsupported-builtin", function="ast.literal_eval, which fails,")
    return tx.literal(value)
