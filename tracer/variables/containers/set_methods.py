"""The methods of sets and frozensets. Importing this registers them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import ListVariable, TupleVariable
from tracer.variables.containers.sets import (
    OF_ANY_SET,
    FrozenSetVariable,
    SetVariable,
    elements,
    entries_of,
    is_set,
    searched_key,
)
from tracer.variables.values.constant import NONE, boolean

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


def _model_of_combination(name: str) -> Any:
    """The model of a method that makes a set of this one and others, such as `union`."""

    def method(tx: Tracer, self: SetVariable, /, *others: VariableTracker) -> VariableTracker:
        return self.combined(tx, name, others)

    return method


@OF_ANY_SET("symmetric_difference")
def _symmetric_difference(tx: Tracer, self: SetVariable, other: VariableTracker, /) -> VariableTracker:
    return self.combined(tx, "symmetric_difference", [other])


@OF_ANY_SET("issubset")
def _issubset(tx: Tracer, self: SetVariable, other: VariableTracker, /) -> VariableTracker:
    if isinstance(other, SetVariable) or not _SUBSET_STOPS_EARLY:
        return self.compare(tx, "<=", SetVariable(entries_of(tx, elements(tx, other)))) or NONE
    found = set()
    for key in _keys_one_by_one(tx, other):
        if key in self.entries:
            found.add(key)
            if len(found) == len(self.entries):
                break
    return boolean(len(found) == len(self.entries))


def _subset_stops_early() -> bool:
    """Whether issubset() asks an iterator for no item after the one that decides it, as from Python 3.12 on."""
    items = iter((1, 2))
    return {1}.issubset(items) and next(items, None) is not None


_SUBSET_STOPS_EARLY = _subset_stops_early()


@OF_ANY_SET("issuperset")
def _issuperset(tx: Tracer, self: SetVariable, other: VariableTracker, /) -> VariableTracker:
    return boolean(all(key in self.entries for key in _keys_one_by_one(tx, other)))


def _keys_one_by_one(tx: Tracer, other: VariableTracker) -> Iterator[Any]:
    """The hash keys of the items, taken lazily: once the answer is settled, no further item is asked for."""
    if isinstance(other, SetVariable):
        yield from other.entries
        return
    iterator = other.iterate(tx)
    while (item := iterator.next(tx)) is not None:
        yield item.hash_key(tx)


@OF_ANY_SET("isdisjoint")
def _isdisjoint(tx: Tracer, self: SetVariable, other: VariableTracker, /) -> VariableTracker:
    return boolean(not any(key in self.entries for key in _keys_one_by_one(tx, other)))


@OF_ANY_SET("copy", "__copy__")
def _copy(tx: Tracer, self: SetVariable, /) -> VariableTracker:
    return self if type(self) is FrozenSetVariable else self.combined(tx, "copy", [])


@OF_ANY_SET("__reduce__", "__reduce_ex__")
def _reduce(tx: Tracer, self: SetVariable, /, *protocol: VariableTracker) -> VariableTracker:
    return TupleVariable([tx.class_variable(self.cls), TupleVariable([ListVariable(self.ordered(tx))]), NONE])


for _name in ("union", "intersection", "difference"):
    OF_ANY_SET(_name)(_model_of_combination(_name))


_set = SetVariable.methods


@_set("update")
def _update(tx: Tracer, self: SetVariable, /, *others: VariableTracker) -> VariableTracker:
    for other in others:
        if is_set(other) or hasattr(other, "real_keys"):
            self.combine(tx, "update", other)
            continue
        iterator = other.iterate(tx)
        while (item := iterator.next(tx)) is not None:
            self.add(tx, item)
    return NONE


@_set("difference_update")
def _difference_update(tx: Tracer, self: SetVariable, /, *others: VariableTracker) -> VariableTracker:
    for other in others:
        self.combine(tx, "difference_update", other)
    return NONE


@_set("intersection_update")
def _intersection_update(tx: Tracer, self: SetVariable, /, *others: VariableTracker) -> VariableTracker:
    self.combine(tx, "intersection_update", *others)
    return NONE


@_set("symmetric_difference_update")
def _symmetric_difference_update(tx: Tracer, self: SetVariable, other: VariableTracker, /) -> VariableTracker:
    self.combine(tx, "symmetric_difference_update", other)
    return NONE


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
    return self.pop(tx)
