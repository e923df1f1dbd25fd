"""Models of `json`. Plain values and text that are known while tracing go through C; with functions of the program, and where it
fails, json is traced through (`polyfills.json_`)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.library.polyfills.json_ import decoded, fail
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import ListVariable, TupleVariable
from tracer.variables.functions.python_functions import as_written
from tracer.variables.objects.buffers import BufferVariable
from tracer.variables.values.constant import ConstantVariable, fold

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_PLAIN = (str, int, float, bool, type(None))
_OPTIONS = frozenset(("skipkeys", "ensure_ascii", "allow_nan", "indent", "separators", "sort_keys"))
_DEEPEST = 100
_DUMPS, _DUMP, _LOADS, _DECODED, _FAIL = map(as_written, (json.dumps, json.dump, json.loads, decoded, fail))
_scan_in_c: Any = vars(json.decoder)["scanstring"]


class _NotPlain(Exception):
    pass


def _plain(tx: Tracer, value: VariableTracker, depth: int = 0) -> Any:
    if type(value) is ConstantVariable and type(value.value) in _PLAIN:
        return value.value
    if depth < _DEEPEST:  # a value that contains itself never ends
        if type(value) in (ListVariable, TupleVariable):
            return [_plain(tx, item, depth + 1) for item in value.unpack(tx)]
        if isinstance(value, DictVariable) and value.cls is dict:
            return {_plain(tx, key, depth): _plain(tx, item, depth + 1) for key, item in value.pairs(tx)}
    raise _NotPlain


@models(json.dumps)
def _dumps(tx: Tracer, value: VariableTracker, /, **options: VariableTracker) -> VariableTracker:
    if options.keys() <= _OPTIONS and all(option.is_constant() for option in options.values()):
        try:
            return ConstantVariable(json.dumps(_plain(tx, value), **{name: each.constant() for name, each in options.items()}))
        except (_NotPlain, TypeError, ValueError):
            pass
    return tx.inline(_DUMPS, [value], options)


@models(json.dump)
def _dump(tx: Tracer, value: VariableTracker, file: VariableTracker, /, **options: VariableTracker) -> VariableTracker:
    if not isinstance(file, BufferVariable):  # CPython writes a real file, chunk by chunk
        unsupported("side-effect-call", name="json.dump", value=file.describe())
    return tx.inline(_DUMP, [value, file], options)


@models(json.loads)
def _loads(tx: Tracer, text: VariableTracker, /, **options: VariableTracker) -> VariableTracker:
    if not all(option.is_none() for option in options.values()):
        return tx.inline(_LOADS, [text], options)
    if type(text) is not ConstantVariable or type(text.value) not in (str, bytes):
        unsupported("unsupported-builtin", function=f"json.loads of {text.describe()}")
    try:
        value = json.loads(text.value)
    except RecursionError:
        unsupported("unsupported-builtin", function="json.loads, which fails,")
    except ValueError:
        if type(text.value) is bytes or text.value.startswith("\ufeff"):
            unsupported("unsupported-builtin", function="json.loads, which fails,")
        return tx.inline(_DECODED, [text], {})
    return tx.literal(value)


@models(_scan_in_c)
def _scanstring(tx: Tracer, *args: VariableTracker) -> VariableTracker:
    given = [arg.constant() for arg in args]
    try:
        _scan_in_c(*given)
    except json.JSONDecodeError as error:
        return tx.inline(_FAIL, [tx.literal(part) for part in (error.msg, error.doc, error.pos)], {})
    return fold(tx, _scan_in_c, *given)
