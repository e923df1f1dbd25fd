"""Models of `re`: patterns are compiled while tracing, from constants. The functions of the module are traced through."""
from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tracer.graph_breaks import unsupported
from tracer.library.registry import models
from tracer.variables.base import VariableTracker
from tracer.variables.constant import fold
from tracer.variables.patterns import PatternVariable

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer

Value = VariableTracker


@models(re._compile)  # type: ignore[attr-defined]
def _compile(tx: Tracer, pattern: Value, flags: Value) -> Value:
    if isinstance(pattern, PatternVariable) and flags.is_constant() and not flags.constant():
        return pattern
    if not (pattern.is_constant() and flags.is_constant()):
        unsupported("not-a-constant", value=pattern.describe())
    return fold(tx, re.compile, pattern.constant(), flags.constant())
