"""Models of `re`: patterns are compiled while tracing, from constants. The functions of the module are traced through."""

from __future__ import annotations

import contextlib
import re
import warnings
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.objects.patterns import PatternVariable
from tracer.variables.values.constant import fold, plain_value

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker


@models(re._compile)  # type: ignore[attr-defined]  # private in re
def _compile(tx: Tracer, pattern: Value, flags: Value) -> Value:
    flags = plain_value(flags)  # from Python 3.13 on, `re.sub` and others pass a zero of a class of their own
    if isinstance(pattern, PatternVariable) and flags.is_constant() and not flags.constant():
        return pattern
    if not (pattern.is_constant() and flags.is_constant()):
        unsupported("not-a-constant", value=pattern.describe())
    if _warns_or_prints(pattern.constant(), flags.constant()):
        # A warning that the program records names the place of the call: the whole frame is left to CPython.
        step = 0 if tx.output.world.warns_are_heard else None
        unsupported("side-effect-call", break_step=step, name="re.compile", value="a pattern that it warns of or prints")
    return fold(tx, re.compile, pattern.constant(), flags.constant())


def _warns_or_prints(pattern: Any, flags: Any) -> bool:
    """Whether compiling the pattern warns or prints. The cache of `re` is passed by: once the pattern were in it, a later compile
    would not warn."""
    if flags & (re.DEBUG | getattr(re, "TEMPLATE", 0)):  # `re._compile` itself warns of the latter, until Python 3.13
        return True
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with contextlib.suppress(Exception):
            re._compiler.compile(pattern, int(flags))  # type: ignore[attr-defined]  # private in re
    return bool(told)
