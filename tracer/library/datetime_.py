"""`datetime`: its values are made and computed while tracing. Functions that read the clock have no model, or break the graph."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.models import foldable, models
from tracer.protocol.variable import VariableTracker
from tracer.variables.values.constant import NONE, fold
from tracer.variables.values.dates import is_in_any_language

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

foldable(datetime.date, datetime.time, datetime.datetime, datetime.timedelta, datetime.timezone)

_YEARS = ("%Y", "%y", "%G")


@models(datetime.datetime.strptime)
def _strptime(tx: Tracer, date_string: VariableTracker, format: VariableTracker, /) -> VariableTracker:
    return fold(tx, datetime.datetime.strptime, date_string.constant(), checked_format(format))


def checked_format(format: VariableTracker) -> Any:
    """The format of a `strptime`; breaks the graph where the locale tells what it means. Without a year, CPython warns."""
    given = format.constant()
    if not is_in_any_language(given) or not any(year in given for year in _YEARS):
        unsupported("unsupported-builtin", function=f"strptime with {given!r}")
    return given


@models(datetime.datetime.fromtimestamp)
def _from_timestamp(tx: Tracer, timestamp: VariableTracker, tz: VariableTracker = NONE) -> VariableTracker:
    if tz.is_none():
        unsupported("unsupported-builtin", function="datetime.fromtimestamp in the local time zone")
    return fold(tx, datetime.datetime.fromtimestamp, timestamp.constant(), tz.constant())
