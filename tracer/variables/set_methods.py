"""The methods of sets and frozensets. Importing this registers them."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.variables.base import VariableTracker
from tracer.variables.constant import NONE, ConstantVariable, boolean
from tracer.variables.sequences import ListVariable, TupleVariable
from tracer.variables.sets import (
    IN_PLACE,
    FrozenSetVariable,
    SetVariable,
    combined,
    copy_as,
    elements,
    entries_of,
    made_of,
    searched_key,
)

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer


def _combining(op: str) -> Any:
    def method(tx: Tracer, self: SetVariable, /, *others: VariableTracker) -> VariableTracker:
        result = copy_as(self, type(self))
        for other in others:
            result = combined(tx, op, result, made_of(tx, other, SetVariable), type(self))
        return result

    return method


def _updating(op: str) -> Any:
    def method(tx: Tracer, self: SetVariable, /, *others: VariableTracker) -> VariableTracker:
        for other in others:
            if op == "|" and not isinstance(other, SetVariable) and not hasattr(other, "real_keys"):
                iterator = other.iterate(tx)
                while (item := iterator.next(tx)) is not None:
                    self.add(tx, item)
            else:
                self.update_by(tx, op, made_of(tx, other, SetVariable))
        return NONE

    return method


def _comparing(op: str) -> Any:
    def method(tx: Tracer, self: SetVariable, other: VariableTracker, /) -> VariableTracker:
        return self.compare(tx, op, SetVariable(entries_of(tx, elements(tx, other)))) or NONE

    return method


def _dunder_compare(op: str) -> Any:
    def method(tx: Tracer, self: SetVariable, other: VariableTracker, /) -> VariableTracker:
        return self.compare(tx, op, other) or ConstantVariable(NotImplemented)

    return method


def _isdisjoint(tx: Tracer, self: SetVariable, other: VariableTracker, /) -> VariableTracker:
    return boolean(not any(item.hash_key(tx) in self.entries for item in elements(tx, other)))


def _copy(tx: Tracer, self: SetVariable, /) -> VariableTracker:
    return self if type(self) is FrozenSetVariable else copy_as(self, type(self))


def _operator(op: str) -> Any:
    def method(tx: Tracer, self: SetVariable, other: VariableTracker, /) -> VariableTracker:
        return self.binary(tx, op, other, False) or ConstantVariable(NotImplemented)

    return method


def _reduce(tx: Tracer, self: SetVariable, /, *protocol: VariableTracker) -> VariableTracker:
    return TupleVariable([tx.class_variable(self.cls), TupleVariable([ListVariable(self.ordered(tx))]), NONE])


for _table in (SetVariable.methods, FrozenSetVariable.methods):
    for _name, _op in (("union", "|"), ("intersection", "&"), ("difference", "-"), ("symmetric_difference", "^")):
        _table(_name)(_combining(_op))
    for _name, _op in (("issubset", "<="), ("issuperset", ">=")):
        _table(_name)(_comparing(_op))
    for _name, _op in (("eq", "=="), ("ne", "!="), ("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
        _table(f"__{_name}__")(_dunder_compare(_op))
    _table("isdisjoint")(_isdisjoint)
    _table("copy", "__copy__")(_copy)
    _table("__len__")(lambda tx, self, /: self.length(tx))
    _table("__iter__")(lambda tx, self, /: self.iterate(tx))
    _table("__contains__")(lambda tx, self, item, /: self.contains(tx, item))
    _table("__repr__", "__str__")(lambda tx, self, /: ConstantVariable(self.text(tx, "repr")))
    for _name, _op in (("or", "|"), ("and", "&"), ("sub", "-"), ("xor", "^")):
        _table(f"__{_name}__")(_operator(_op))
    _table("__reduce__", "__reduce_ex__")(_reduce)

_set = SetVariable.methods
for _op, _name in IN_PLACE.items():
    _set(_name)(_updating(_op))


@_set("add")
def _add(tx: Tracer, self: SetVariable, item: VariableTracker, /) -> VariableTracker:
    self.add(tx, item)
    return NONE


@_set("discard")
def _discard(tx: Tracer, self: SetVariable, item: VariableTracker, /) -> VariableTracker:
    self.discard(tx, searched_key(tx, self.entries, item))
    return NONE


@_set("remove")
def _remove(tx: Tracer, self: SetVariable, item: VariableTracker, /) -> VariableTracker:
    key = searched_key(tx, self.entries, item)
    if key not in self.entries:
        tx.raise_value(tx.new_exception(KeyError, item))
    self.discard(tx, key)
    return NONE


@_set("clear")
def _clear(tx: Tracer, self: SetVariable, /) -> VariableTracker:
    self.clear(tx)
    return NONE


@_set("pop")
def _pop(tx: Tracer, self: SetVariable, /) -> VariableTracker:
    if not self.entries:
        tx.raise_error(KeyError, "pop from an empty set")
    if len(self.entries) > 1 and self.source is not None:
        unsupported("set-order", value=self.describe())
    item = self.ordered(tx)[0]
    key = item.hash_key(tx)
    self.changed(tx, "discard", item)
    del self.entries[key]
    if self.twin is not None:
        assert self.twin.pop() == key
    return item
