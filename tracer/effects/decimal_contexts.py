"""The thread's context of `decimal`: it decides what is computed of decimals, and keeps flags of what has happened. A guard fixes
the former, and the output code raises the latter again."""

from __future__ import annotations

import contextlib
import decimal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tracer.effects.deferred_calls import DeferredCall
from tracer.guards.state import AnswerMatch

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


def are_among(values: Any) -> bool:
    """Whether decimals are among some values, or in tuples and frozensets among them."""
    for value in values:
        cls = type(value)
        if cls is decimal.Decimal or value is decimal.Decimal:
            return True
        if (cls is tuple or cls is frozenset) and are_among(value):
            return True
    return False


@contextlib.contextmanager
def computing(tx: Tracer) -> Iterator[None]:
    """Within, decimals are computed in a copy of the thread's context."""
    tx.guard(AnswerMatch(context_settings, context_settings()))
    with decimal.localcontext() as trial:
        trial.clear_flags()
        try:
            yield
        finally:
            flags = tuple([signal for signal, raised in trial.flags.items() if raised])
            if flags:
                tx.effects.defer(DeferredCall(raise_flags, (flags,), ()))


def context_settings() -> tuple[Any, ...]:
    """The thread's context, apart from its flags, as plain values."""
    now = decimal.getcontext()
    traps = tuple([signal.__name__ for signal, trapped in now.traps.items() if trapped])
    return now.prec, now.rounding, now.Emin, now.Emax, now.capitals, now.clamp, traps


def raise_flags(flags: tuple[Any, ...]) -> None:
    """Called by output code."""
    known = decimal.getcontext().flags
    for flag in flags:
        known[flag] = True
