"""`string`: the parts of a format string. `Formatter` and `Template`, written in Python, are traced through."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.text import plain_form

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_in_c: Any = importlib.import_module("_string")


@models(_in_c.formatter_parser)
def _formatter_parser(tx: Tracer, text: VariableTracker, /) -> VariableTracker:
    return _iterator(tx, _in_c.formatter_parser(_text(tx, text)))


@models(_in_c.formatter_field_name_split)
def _formatter_field_name_split(tx: Tracer, name: VariableTracker, /) -> VariableTracker:
    first, rest = _in_c.formatter_field_name_split(_text(tx, name))
    return tx.tuple_of([tx.literal(first), _iterator(tx, rest)])


def _text(tx: Tracer, value: VariableTracker) -> str:
    text = plain_form(tx, value)
    if type(text) is not str:
        unsupported("unsupported-builtin", function=f"string.Formatter of {value.describe()}")
    return text


def _iterator(tx: Tracer, parts: Iterable[Any]) -> VariableTracker:
    """The parts, one by one. Where a later one is wrong, CPython does it: the program may fail before it gets there."""
    try:
        return tx.literal(tuple(parts)).iterate(tx)
    except ValueError:
        unsupported("unsupported-builtin", function="string.Formatter of a wrong format")
