"""The methods of dicts. Importing this registers them."""

from __future__ import annotations

import collections
import types
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.dict_views import KINDS, DictViewVariable
from tracer.variables.containers.dicts import DictVariable, from_keys, update_from
from tracer.variables.containers.tuples import TupleVariable
from tracer.variables.values.constant import NONE, TRUE, ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_dict = DictVariable.methods


@_dict("__init__", "update")
def _update(tx: Tracer, self: DictVariable, /, *others: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    if len(others) > 1:
        unsupported("call-arguments", error=f"update expected at most 1 argument, got {len(others)}")
    for other in others:
        update_from(tx, self, other)
    self.update(tx, ((ConstantVariable(key), value) for key, value in kwargs.items()))
    return NONE


@_dict("get")
def _get(tx: Tracer, self: DictVariable, key: VariableTracker, default: VariableTracker = NONE, /) -> VariableTracker:
    found = self.find(tx, key)
    return default if found is None else found


@_dict("setdefault")
def _setdefault(tx: Tracer, self: DictVariable, key: VariableTracker, default: VariableTracker = NONE, /) -> VariableTracker:
    found = self.find(tx, key)
    if found is None:
        self.set_item(tx, key, default)
        return default
    return found


@_dict("pop")
def _pop(tx: Tracer, self: DictVariable, key: VariableTracker, /, *more: VariableTracker, default: Any = None) -> VariableTracker:
    """dict.pop(key[, default]); only an OrderedDict takes `default` by name."""
    if len(more) > 1 or (default is not None and self.cls is not collections.OrderedDict):
        unsupported("call-arguments", error="pop")
    found = self.find(tx, key)
    if found is None:
        default = more[0] if more else default
        if default is None:
            self.missing(tx, key)
            raise AssertionError  # not reached: `missing` raises in the program
        result: VariableTracker = default
        return result
    self.del_item(tx, key)
    return found


@_dict("popitem")
def _popitem(tx: Tracer, self: DictVariable, last: VariableTracker | None = None) -> VariableTracker:
    """dict.popitem(), OrderedDict.popitem(last=True)"""
    ordered = self.cls is collections.OrderedDict
    if last is not None and not ordered:
        unsupported("call-arguments", error="dict.popitem() takes no arguments")
    if not self.entries:
        tx.raise_error(KeyError, "dictionary is empty" if ordered else "popitem(): dictionary is empty")
    hashed = next(iter(self.entries)) if last is not None and not last.truth(tx) else next(reversed(self.entries))
    key, value = self.entries[hashed][0], self.value(tx, hashed)
    self.del_item(tx, key)
    return TupleVariable([key, value])


@_dict("clear")
def _clear(tx: Tracer, self: DictVariable, /) -> VariableTracker:
    self.clear(tx)
    return NONE


@_dict("copy", "__copy__")
def _copy(tx: Tracer, self: DictVariable, /) -> VariableTracker:
    if self.cls is types.MappingProxyType:
        self.values(tx)  # wraps the values that were not read yet
        return DictVariable(dict(self.entries))
    return self.copy(tx)


@_dict("fromkeys")
def _fromkeys(tx: Tracer, self: DictVariable, keys: VariableTracker, value: VariableTracker = NONE, /) -> VariableTracker:
    return from_keys(tx, self.cls, keys, value)


@_dict("move_to_end")
def _move_to_end(tx: Tracer, self: DictVariable, key: VariableTracker, last: VariableTracker = TRUE) -> VariableTracker:
    hashed = self.key_of(tx, key)
    if hashed not in self.entries:
        self.missing(tx, key)
    rest = {other: pair for other, pair in self.entries.items() if other != hashed}
    moved = {hashed: self.entries[hashed]}
    self.reorder(tx, {**rest, **moved} if last.truth(tx) else {**moved, **rest})
    return NONE


@_dict("__reduce__", "__reduce_ex__")
def _reduce(tx: Tracer, self: DictVariable, /, *protocol: VariableTracker) -> VariableTracker:
    if self.cls not in (collections.OrderedDict, collections.defaultdict):
        unsupported("unsupported-method", value=self.describe(), name="__reduce_ex__")
    factory = [] if self.default_factory is None else [self.default_factory]
    items = DictViewVariable(self, "items").iterate(tx)
    return TupleVariable([tx.class_variable(self.cls), TupleVariable(factory), NONE, NONE, items])


def _model_of_view(kind: str) -> Any:
    """The model of `keys`, `values` or `items`."""

    def method(tx: Tracer, self: DictVariable, /) -> VariableTracker:
        return DictViewVariable(self, kind)

    return method


for _kind in KINDS:
    _dict(_kind)(_model_of_view(_kind))
