"""set and frozenset. Their methods are in `set_methods`.

The order of a set is a matter of hashes and of its history. A set whose elements have the same hash at every call keeps
a `twin`: a real set of their hash keys, on which CPython does each operation too. Iteration follows the twin; without
one (tensors, new objects) it breaks the graph.
"""
from __future__ import annotations

import random
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracer import guards
from tracer.graph_breaks import unsupported
from tracer.variables.base import Models, VariableTracker, invoke
from tracer.variables.constant import BINARY, ConstantVariable, boolean
from tracer.variables.identities import refuse_unknown
from tracer.variables.iterators import IteratorVariable
from tracer.variables.text import form

if TYPE_CHECKING:
    from tracer.sources import Source
    from tracer.variables.protocol import Tracer

Entries = dict[Any, VariableTracker]
MOST_ATTEMPTS = 500
BY_INSERTION = object()  # a twin made by inserting one element after the other
_SET_OPERATORS = ("&", "|", "-", "^")


def is_fixed(item: VariableTracker) -> bool:
    """Whether the hash of an element is the same at every call that the entry serves."""
    return item.is_constant() or isinstance(
        item.identity(), (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)
    )


def real_elements(entries: Entries) -> list[Any] | None:
    """The hash keys, if CPython hashes them as it would hash the elements."""
    return list(entries) if all(map(is_fixed, entries.values())) else None


def entries_of(tx: Tracer, items: Iterable[VariableTracker]) -> Entries:
    entries: Entries = {}
    for item in items:
        entries.setdefault(key_of(tx, entries, item), item)
    return entries


class InOrder:
    """Formats as a set whose elements come in an order that was seen."""

    def __init__(self, cls: type, items: list[Any]) -> None:
        self._cls = cls
        self._items = items

    def __repr__(self) -> str:
        text = f"{{{', '.join(map(repr, self._items))}}}"
        return text if self._cls is set else f"{self._cls.__name__}({text})"


class SetVariable(VariableTracker):
    """A set: `entries` maps the hash key of each element to the element."""

    cls: type = set
    methods = Models("set method")

    def __init__(self, entries: Entries, source: Source | None = None, twin: Any = BY_INSERTION) -> None:
        self.entries = entries
        self.source = source
        self.log: list[tuple[str, VariableTracker | None]] = []  # mutations of a set that existed before the frame
        if twin is BY_INSERTION:
            elements = real_elements(entries) if source is None else None
            twin = None if elements is None else self._real(elements)
        self.twin = twin

    def _real(self, elements: Iterable[Any]) -> Any:
        """A real set of this kind, made as CPython's set displays are: element by element."""
        return self.cls(iter(elements))

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        return f"{type(self).__name__}(length={len(self.entries)})"

    __repr__ = describe

    def children(self) -> Iterable[VariableTracker]:
        return self.entries.values()

    def truth(self, tx: Tracer) -> bool:
        return bool(self.entries)

    def length(self, tx: Tracer) -> VariableTracker:
        return ConstantVariable(len(self.entries))

    def form(self, tx: Tracer) -> Any:
        items = self.ordered(tx)
        if len(items) < 2:
            return self.cls(form(tx, item) for item in items)
        return InOrder(self.cls, [form(tx, item) for item in items]) if self.twin is None else self.twin

    def text(self, tx: Tracer, kind: str) -> str:
        return repr(form(tx, self))

    # -- order ---------------------------------------------------------------------------------------------------

    def ordered(self, tx: Tracer) -> list[VariableTracker]:
        """The elements in the order in which CPython would iterate."""
        if len(self.entries) < 2:
            return list(self.entries.values())
        if self.source is not None and not self.log:
            members = tuple(item.constant() for item in self.entries.values())
            tx.guard(guards.SetOrderMatch(self.source, members))
            return list(self.entries.values())
        if self.twin is None:
            unsupported("set-order", value=self.describe())
        return [self.entries[key] for key in self.twin]

    def unpack(self, tx: Tracer) -> list[VariableTracker]:
        return self.ordered(tx)

    def iterate(self, tx: Tracer) -> VariableTracker:
        return SetIterator(self, self.ordered(tx))

    # -- protocol ------------------------------------------------------------------------------------------------

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        return boolean(searched_key(tx, self.entries, item) in self.entries)

    def hash_key(self, tx: Tracer) -> Any:
        tx.raise_error(TypeError, f"unhashable type: {self.cls.__name__!r}")

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if op not in _SET_OPERATORS or reflected or not isinstance(other, SetVariable):
            return None
        return combined(tx, op, self, other, type(self))

    def inplace(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if self.cls is not set or op not in _SET_OPERATORS or not isinstance(other, SetVariable):
            return None
        self.update_by(tx, op, other)
        return self

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        theirs = set_form(tx, other)
        if theirs is None:
            return None
        left, right = self.entries.keys(), theirs.entries.keys()
        results = {"==": left == right, "!=": left != right, "<=": left <= right, "<": left < right,
                   ">=": left >= right, ">": left > right}  # fmt: skip
        return boolean(results[op])

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name == "__class__":
            return tx.class_variable(self.cls, self)
        if hasattr(self.cls, name):
            return tx.bound_builtin_method(self, name)
        tx.raise_error(AttributeError, f"{self.cls.__name__!r} object has no attribute {name!r}")

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        model = self.methods.get(name)
        if model is None or not hasattr(self.cls, name):
            self.get_attr(tx, name)
            unsupported("unsupported-method", value=self.describe(), name=name)
        return invoke(model, (tx, self, *args), kwargs)

    # -- changes -------------------------------------------------------------------------------------------------

    def changed(self, tx: Tracer, method: str, operand: VariableTracker | None = None) -> None:
        """Called before each change, with the call that will repeat it on a set that existed before the frame."""
        tx.effects.mutate(self)
        if self.source is not None:
            self.log.append((method, operand))

    def add(self, tx: Tracer, item: VariableTracker) -> None:
        key = key_of(tx, self.entries, item)
        if key in self.entries:
            return
        self.changed(tx, "add", item)
        self.entries[key] = item
        if self.twin is not None:
            self.twin.add(key) if is_fixed(item) else self._lose_order()

    def discard(self, tx: Tracer, key: Any) -> None:
        if key in self.entries:
            self.changed(tx, "discard", self.entries[key])
            del self.entries[key]
            if self.twin is not None:
                self.twin.discard(key)

    def clear(self, tx: Tracer) -> None:
        self.changed(tx, "clear")
        self.entries.clear()
        self.twin = set()

    def _lose_order(self) -> None:
        self.twin = None

    def update_by(self, tx: Tracer, op: str, theirs: SetVariable) -> None:
        """self op= theirs"""
        result = combined(tx, op, self, theirs, SetVariable)
        self.changed(tx, IN_PLACE[op], SetVariable(dict(theirs.entries), twin=_copied(theirs.twin)))
        if self.twin is not None and theirs.twin is not None:
            getattr(self.twin, IN_PLACE[op])(theirs.twin)
            self.entries = {key: result.entries[key] for key in self.twin}
        else:
            self.entries, self.twin = result.entries, None

    # -- code ----------------------------------------------------------------------------------------------------

    def reconstruct(self, cg: Any) -> None:
        if self.twin is None:
            self._build(cg, list(self.entries.values()), [])
            return
        recipe = recipe_of(list(self.twin), list(self.entries))
        if recipe is None:
            unsupported("cannot-reconstruct", value="a set whose order follows from how it was made")
        order, fillers = recipe
        self._build(cg, [self.entries[key] for key in order], fillers)

    def _build(self, cg: Any, items: list[VariableTracker], fillers: list[int]) -> None:
        cg.asm.emit("BUILD_SET", 0)
        for item in (*map(ConstantVariable, fillers), *items):
            cg.load(item)
            cg.asm.emit("SET_ADD", 1)
        for filler in fillers:
            cg.asm.copy(1)
            cg.load_attr("discard")
            cg.call_top(lambda filler=filler: cg.load_const(filler))
            cg.asm.pop()

    def replay(self, cg: Any) -> None:
        """The changes again, one by one."""
        for method, operand in self.log:
            loads = [lambda: cg.load(self)]
            if operand is not None:
                loads.append(lambda operand=operand: cg.load(operand))  # type: ignore[misc]
            cg.call_object(getattr(set, method), *loads)
            cg.asm.emit("POP_TOP")


IN_PLACE = {
    "|": "update", "&": "intersection_update", "-": "difference_update", "^": "symmetric_difference_update",
}  # fmt: skip


def _copied(twin: Any) -> Any:
    return None if twin is None else twin.copy()


def recipe_of(wanted: list[Any], inserted: list[Any]) -> tuple[list[Any], list[int]] | None:
    """An order of insertion, and ints to insert before and discard afterwards, that give a set this order of iteration.

    The history of a set shows in its order only where hashes collide: a few tries find another history for it."""
    for order, fillers in _histories(wanted, inserted):
        made = set[Any]()
        for element in (*fillers, *order):
            made.add(element)
        made.difference_update(fillers)
        if list(made) == wanted:
            return order, fillers
    return None


def _histories(wanted: list[Any], inserted: list[Any]) -> Iterable[tuple[list[Any], list[int]]]:
    yield inserted, []
    yield wanted, []
    taken = set(wanted)
    free = [number for number in range(64) if number not in taken]
    source = random.Random(0)
    for _ in range(MOST_ATTEMPTS):
        yield source.sample(wanted, len(wanted)), source.sample(free, source.randrange(len(free) // 2))


class FrozenSetVariable(SetVariable):
    cls = frozenset
    methods = Models("frozenset method")

    def is_constant(self) -> bool:
        return all(item.is_constant() for item in self.entries.values())

    def constant(self) -> Any:
        if self.twin is not None:
            return self.twin
        return frozenset(item.constant() for item in self.entries.values())

    def hash_key(self, tx: Tracer) -> Any:
        return frozenset(self.entries)

    def reconstruct(self, cg: Any) -> None:
        if self.twin is not None and list(self._real(self.entries)) == list(self.twin):
            cg.call_object(frozenset, lambda: cg.build_sequence("BUILD_LIST", list(self.entries.values())))
        elif self.is_constant() and self.twin is not None:
            cg.load_object(self.twin)
        else:
            made = SetVariable(self.entries, twin=self.twin)
            cg.call_object(frozenset, lambda: made.reconstruct(cg))
            if self.twin is not None and list(frozenset(self.twin)) != list(self.twin):
                unsupported("cannot-reconstruct", value="a frozenset whose order follows from how it was made")


class SetIterator(IteratorVariable):
    """iter(set): a change of size meanwhile raises as in CPython, any other change breaks the graph."""

    cls = type(iter(frozenset[int]()))

    def __init__(self, owner: SetVariable, items: list[VariableTracker]) -> None:
        self.owner = owner
        self.items = items
        self.keys = list(owner.entries)
        self.position = 0

    def advance(self, tx: Tracer) -> VariableTracker | None:
        if self.position < 0:
            return None
        if len(self.owner.entries) != len(self.keys):
            self.position = -1
            tx.raise_error(RuntimeError, "Set changed size during iteration")
        if list(self.owner.entries) != self.keys:
            unsupported("set-order", value="a set that changes during iteration")
        if self.position == len(self.items):
            self.position = -1
            return None
        self.position += 1
        return self.items[self.position - 1]

    def container(self) -> VariableTracker | None:
        return self.owner

    def children(self) -> Iterable[VariableTracker]:
        return (self.owner, *self.items)

    def reconstruct(self, cg: Any) -> None:
        if self.position == 0 and list(self.owner.entries) == self.keys:
            cg.load(self.owner)
            cg.asm.emit("GET_ITER")
            return
        unsupported("cannot-reconstruct", value="a half-consumed iterator over a set")


# -- operations --------------------------------------------------------------------------------------------------------


def searched_key(tx: Tracer, entries: Entries, item: VariableTracker) -> Any:
    """The hash key under which an item is looked for: a set is looked for as a frozenset."""
    if type(item) is SetVariable:
        return frozenset(item.entries)
    return key_of(tx, entries, item)


def key_of(tx: Tracer, entries: Entries, item: VariableTracker) -> Any:
    hashed = item.hash_key(tx)
    if tx.trace.ids_are_keys:
        refuse_unknown(hashed, entries)
    return hashed


def set_form(tx: Tracer, value: VariableTracker) -> SetVariable | None:
    """What a set is compared with: a set, a frozenset, or the elements of a view of keys or items."""
    if isinstance(value, SetVariable):
        return value
    as_set = getattr(value, "as_set", None)
    return None if as_set is None else as_set(tx)


def combined(tx: Tracer, op: str, mine: SetVariable, theirs: SetVariable, make: type[SetVariable]) -> SetVariable:
    """mine op theirs"""
    left, right = mine.entries, theirs.entries
    if op == "|":
        entries = {**left, **{k: v for k, v in right.items() if k not in left}}
    elif op == "&":
        entries = {k: v for k, v in left.items() if k in right}
    else:
        entries = {k: v for k, v in left.items() if k not in right}
        if op == "^":
            entries.update({k: v for k, v in right.items() if k not in left})
    twin = None
    if mine.twin is not None and theirs.twin is not None:
        twin = BINARY[op](mine.twin, theirs.twin)
        entries = {key: entries[key] for key in twin}
    return make(entries, twin=twin)


def made_of(tx: Tracer, value: VariableTracker | None, make: type[SetVariable]) -> SetVariable:
    """set(value) or frozenset(value)"""
    if value is None:
        return make({})
    if isinstance(value, SetVariable):
        if make is FrozenSetVariable and type(value) is FrozenSetVariable:
            return value
        return copy_as(value, make)
    real = getattr(value, "real_keys", None)
    if real is None:  # element by element
        return make(entries_of(tx, value.unpack(tx)))
    entries = entries_of(tx, value.unpack(tx))
    elements = real_elements(entries)  # a dict: its size is known beforehand
    return make(entries, twin=None if elements is None else make.cls(dict.fromkeys(elements)))


def copy_as(value: SetVariable, make: type[SetVariable]) -> SetVariable:
    twin = None if value.twin is None else make.cls(value.twin)
    entries = dict(value.entries) if twin is None else {key: value.entries[key] for key in twin}
    return make(entries, twin=twin)


def elements(tx: Tracer, value: VariableTracker) -> list[VariableTracker]:
    """The elements of an iterable that goes into a set, where order does not matter."""
    return list(value.entries.values()) if isinstance(value, SetVariable) else value.unpack(tx)
