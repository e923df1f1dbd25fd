"""Views of dicts, and iterators over them."""

from __future__ import annotations

import collections
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.models import Models
from tracer.protocol.variable import VariableTracker, whole
from tracer.variables.containers.set_history import Made
from tracer.variables.containers.sets import (
    ENTRIES,
    METHODS,
    Operand,
    SetVariable,
    entries_of,
    listed,
    made_of,
    operand_of,
    set_form,
)
from tracer.variables.containers.tuples import TupleVariable
from tracer.variables.iteration import IteratorVariable, skipped
from tracer.variables.slots import BINARY, BuiltinVariable
from tracer.variables.text import form
from tracer.variables.values.constant import boolean

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.sources.base import Source
    from tracer.variables.containers.dicts import DictVariable

KINDS = ("keys", "values", "items")
_ORDERED = collections.OrderedDict[Any, Any]()
VIEW_KINDS: dict[type, str] = {type(getattr(owner, kind)()): kind for owner in (dict[Any, Any](), _ORDERED) for kind in KINDS}


class DictViewVariable(BuiltinVariable):
    """dict.keys(), .values() or .items(). It shows later changes of its dict."""

    methods = Models("method of views")

    def __init__(self, owner: DictVariable, kind: str, source: Source | None = None) -> None:
        self.owner = owner
        self.kind = kind
        self.source = source

    def python_type(self) -> type:
        return type(getattr(_ORDERED if issubclass(self.owner.cls, collections.OrderedDict) else {}, self.kind)())

    def children(self) -> Iterable[VariableTracker]:
        return (whole(self.owner),)

    def form(self, tx: Tracer) -> Any:
        return getattr(form(tx, self.owner), self.kind)()

    def truth(self, tx: Tracer) -> bool:
        return bool(self.owner.entries)

    def length(self, tx: Tracer) -> VariableTracker:
        return self.owner.length(tx)

    def unpack(self, tx: Tracer) -> list[VariableTracker]:
        return [self.item(tx, key) for key in self.owner.entries]

    def item(self, tx: Tracer, hashed: Any) -> VariableTracker:
        if self.kind == "keys":
            return self.owner.entries[hashed][0]
        value = self.owner.value(tx, hashed)
        return value if self.kind == "values" else TupleVariable([self.owner.entries[hashed][0], value])

    def iterate(self, tx: Tracer) -> VariableTracker:
        return DictIterator(self.owner, self.kind)

    def reverse_iterate(self, tx: Tracer) -> VariableTracker:
        return DictIterator(self.owner, self.kind, backwards=True)

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        if self.kind == "keys":
            return self.owner.contains(tx, item)
        if self.kind == "items":
            return boolean(self._has_pair(tx, item))
        return boolean(any(tx.same_or_equal(mine, item) for mine in self.unpack(tx)))

    def _has_pair(self, tx: Tracer, item: VariableTracker) -> bool:
        if not isinstance(item, TupleVariable):
            unsupported("unsupported-subscript", value=self.describe(), key=item.describe())
        pair = item.items(tx)
        found = self.owner.find(tx, pair[0]) if len(pair) == 2 else None
        return found is not None and tx.same_or_equal(found, pair[1])

    def as_set(self, tx: Tracer) -> SetVariable | None:
        """The view as a set, for set operators and comparisons. None for a view of values."""
        if self.kind == "values":
            return None
        if self.kind == "keys" and self.owner.cls is dict:
            return made_of(tx, self.owner, SetVariable)
        return SetVariable(entries_of(tx, self.unpack(tx)))

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if self.kind == "values" or op not in ("&", "|", "-", "^"):
            return None
        if reflected and not isinstance(other, SetVariable):
            return None
        mine = self._operand(tx)
        theirs = other._operand(tx) if isinstance(other, DictViewVariable) else operand_of(tx, other)
        return computed(op, theirs, mine) if reflected else computed(op, mine, theirs)

    def _operand(self, tx: Tracer) -> Operand:
        base = dict if self.owner.cls is dict else collections.OrderedDict
        operand = listed(entries_of(tx, self.unpack(tx)), base, self.kind)
        if self.kind == "keys" and operand.real is not None:
            operand.real = operand.real.keys()
        else:
            operand.real = None
        return operand

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        mine, theirs = self.as_set(tx), set_form(tx, other)
        return None if mine is None or theirs is None else mine.compare(tx, op, theirs)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name == "mapping":
            unsupported("unsupported-attribute", value=self.describe(), name=name)
        return super().get_attr(tx, name)

    def reconstruct(self, cg: ValueCodegen) -> None:
        self.rebuild(cg, lambda: cg.load(whole(self.owner)))

    def rebuild(self, cg: ValueCodegen, load: Any = None) -> None:
        """-> the view of the dict that `load` loads, or of a new empty one, made by the method of the built-in class"""
        bases = (collections.OrderedDict, types.MappingProxyType, dict)
        base = next(base for base in bases if issubclass(self.owner.cls, base))
        if load is None and base is types.MappingProxyType:
            base = dict
        cg.call_object(getattr(base, self.kind), load or (lambda: cg.call_object(base)))


@DictViewVariable.methods("isdisjoint")
def _isdisjoint(tx: Tracer, self: DictViewVariable, other: VariableTracker, /) -> VariableTracker:
    mine = self.as_set(tx)
    assert mine is not None
    return mine.call_method(tx, "isdisjoint", [other], {})


def computed(op: str, left: Operand, right: Operand) -> SetVariable:
    """The set that a set operator gives when at least one operand is a view."""
    own = {key: key for key in left.entries}
    if op == "&" and any(type(own.get(key, key)) is not type(key) for key in right.entries):
        unsupported("set-order", value="keys that are equal and differ")
    entries = ENTRIES[METHODS[op]](left.entries, right)
    shadow = None
    if left.real is not None and right.real is not None:
        shadow = BINARY[op](left.real, right.real)
    return SetVariable(entries, shadow=shadow, history=Made(BINARY[op], (left.history, right.history)))


class DictIterator(IteratorVariable):
    """Iterates over keys, values or items. If the size changes meanwhile, it raises as in CPython."""

    def __init__(self, owner: DictVariable, kind: str, backwards: bool = False) -> None:
        self.view = DictViewVariable(owner, kind)
        self.backwards = backwards
        self.keys = list(owner.entries)[:: -1 if backwards else 1]
        self.version = owner.version
        self.position = 0
        self.exhausted = False

    def python_type(self) -> type:
        owner: Any = _ORDERED if issubclass(self.view.owner.cls, collections.OrderedDict) else {}
        view = getattr(owner, self.view.kind)()
        return type(reversed(view)) if self.backwards else type(iter(view))

    def advance(self, tx: Tracer) -> VariableTracker | None:
        if self.exhausted:
            return None
        if len(self.view.owner.entries) != len(self.keys):
            if issubclass(self.view.owner.cls, collections.OrderedDict):  # its rules and messages differ from those of dict
                unsupported("unsupported-iteration", value="an OrderedDict that changes during iteration")
            self.exhausted = True
            tx.raise_error(RuntimeError, "dictionary changed size during iteration")
        if not self._is_unchanged():
            unsupported("unsupported-iteration", value="a dict whose keys change during iteration")
        if self.position == len(self.keys):
            self.exhausted = True
            return None
        self.position += 1
        return self.view.item(tx, self.keys[self.position - 1])

    def _is_unchanged(self) -> bool:
        return bool(self.view.owner.version == self.version)

    def container(self) -> VariableTracker | None:
        return self.view.owner

    def children(self) -> Iterable[VariableTracker]:
        return (self.view,)

    def reconstruct(self, cg: ValueCodegen) -> None:
        if self.exhausted:
            cg.call_object(_exhausted, lambda: self._fresh(cg))
            return
        if not self._is_unchanged():
            unsupported("cannot-reconstruct", value="an iterator over a dict that changed since")
        if self.position == 0:
            self._fresh(cg, lambda: cg.load(whole(self.view.owner)))
        else:
            fresh = lambda: self._fresh(cg, lambda: cg.load(whole(self.view.owner)))  # noqa: E731
            cg.call_object(skipped, fresh, lambda: cg.load_const(self.position))

    def _fresh(self, cg: ValueCodegen, load: Any = None) -> None:
        cg.call_object(reversed if self.backwards else iter, lambda: self.view.rebuild(cg, load))


def _exhausted(iterator: Any) -> Any:
    for _ in iterator:
        pass
    return iterator
