"""Models of `json`: dumps of plain values and loads of text, if known while tracing. Everything else is left to CPython."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import ListVariable, TupleVariable
from tracer.variables.values.constant import ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_PLAIN = (str, int, float, bool, type(None))
_OPTIONS = frozenset(("skipkeys", "ensure_ascii", "allow_nan", "indent", "separators", "sort_keys"))
_DEEPEST = 100


def _plain(tx: Tracer, value: VariableTracker, depth: int = 0) -> Any:
    if type(value) is ConstantVariable and type(value.value) in _PLAIN:
        return value.value
    if depth < _DEEPEST:  # a value that contains itself never ends
        if type(value) in (ListVariable, TupleVariable):
            return [_plain(tx, item, depth + 1) for item in value.unpack(tx)]
        if isinstance(value, DictVariable) and value.cls is dict:
            return {_plain(tx, key, depth): _plain(tx, item, depth + 1) for key, item in value.pairs(tx)}
    unsupported("unsupported-builtin", function=f"json of {value.describe()}")


@models(json.dumps)
def _dumps(tx: Tracer, value: VariableTracker, /, **options: VariableTracker) -> VariableTracker:
    if not options.keys() <= _OPTIONS or not all(option.is_constant() for option in options.values()):
        unsupported("unsupported-builtin", function="json.dumps with these options")
    try:
        return ConstantVariable(json.dumps(_plain(tx, value), **{name: option.constant() for name, option in options.items()}))
    except (TypeError, ValueError):  # CPython raises it instead
        unsupported("unsupported-builtin", function="json.dumps, which fails,")


@models(json.loads)
def _loads(tx: Tracer, text: VariableTracker, /) -> VariableTracker:
    if type(text) is not ConstantVariable or type(text.value) not in (str, bytes):
        unsupported("unsupported-builtin", function=f"json.loads of {text.describe()}")
    try:
        value = json.loads(text.value)
    except (ValueError, RecursionError):
        unsupported("unsupported-builtin", function="json.loads, which fails,")
    return tx.literal(value)
