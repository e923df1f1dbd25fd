"""set and frozenset. Their methods are in `set_methods`.

The iteration order of a set depends on the hashes of its elements and on its history. A set whose elements have the same
hash at every call keeps a `shadow`: a real set of their hash keys, to which each operation is applied as well. Iteration
follows the order of the shadow; a set without one (it holds tensors or new objects) breaks the graph when it is iterated.
The output code makes a set by repeating its `history`.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tracer.effects.lifetimes import check_release
from tracer.graph_breaks import unsupported
from tracer.guards.containers import SetOrderMatch
from tracer.protocol.lookups import rely_on_process
from tracer.protocol.models import Models
from tracer.protocol.variable import VariableTracker, held, whole
from tracer.sources.reading import is_a
from tracer.variables.containers import set_history
from tracer.variables.containers.keys import is_none_of, key_in
from tracer.variables.containers.set_history import Changed, Existing, History, Listed, Made, Step
from tracer.variables.iteration import IteratorVariable
from tracer.variables.slots import BuiltinVariable
from tracer.variables.text import form
from tracer.variables.values.constant import ConstantVariable, boolean

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.sources.base import Source

Entries = dict[Any, VariableTracker]
OF_ANY_SET = Models("method of set and frozenset")
BY_INSERTION = object()  # default for `shadow`: make one by inserting the elements in order


def is_fixed(item: VariableTracker) -> bool:
    """Whether the hash of an element is the same at every call that the cache entry serves."""
    return item.is_constant() or is_a(item.identity(), (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType))


def real_elements(entries: Entries) -> list[Any] | None:
    """The hash keys if they hash as the elements do in CPython, otherwise None."""
    return list(entries) if all(map(is_fixed, entries.values())) else None


def entries_of(tx: Tracer, items: Iterable[VariableTracker]) -> Entries:
    entries: Entries = {}
    for item in items:
        entries.setdefault(key_of(tx, entries, item), item.specialize(tx))
    return entries


class InOrder:
    """Stands for a set in formatting and shows the elements in the given order, which was observed."""

    def __init__(self, cls: type, items: list[Any]) -> None:
        self._cls = cls
        self._items = items

    def __repr__(self) -> str:
        text = f"{{{', '.join(map(repr, self._items))}}}"
        return text if self._cls is set else f"{self._cls.__name__}({text})"


class SetVariable(BuiltinVariable):
    """A set: `entries` maps the hash key of each element to the element."""

    cls: type = set
    methods = Models("set method", OF_ANY_SET)
    operands: tuple[type, ...] = (set, frozenset, type({}.keys()), type({}.items()))

    def __init__(
        self, entries: Entries, source: Source | None = None, shadow: Any = BY_INSERTION, history: History | None = None
    ) -> None:
        self.entries = entries
        self.source = source
        if shadow is BY_INSERTION:
            elements = real_elements(entries) if source is None else None
            shadow = None if elements is None else self.cls(iter(elements))
        self.shadow = shadow
        if history is None:
            history = (
                Made(self.cls, (Listed(tuple(entries.values())),)) if source is None else Existing(self, tuple(entries.values()))
            )
        self.history = history
        self.changed_at = 0  # the step of the first change of a set that existed before the frame

    def describe(self) -> str:
        return f"{type(self).__name__}(length={len(self.entries)})"

    def children(self) -> Iterable[VariableTracker]:
        needed = dict.fromkeys((*self.entries.values(), *set_history.values_in(self.history)))
        needed.pop(self, None)
        return needed

    def truth(self, tx: Tracer) -> bool:
        return bool(self.entries)

    def length(self, tx: Tracer) -> VariableTracker:
        return ConstantVariable(len(self.entries))

    def form(self, tx: Tracer) -> Any:
        items = self.ordered(tx)
        if len(items) < 2:
            return self.cls(form(tx, item) for item in items)
        return InOrder(self.cls, [form(tx, item) for item in items]) if self.shadow is None else self.shadow

    # -- order ---------------------------------------------------------------------------------------------------

    def ordered(self, tx: Tracer) -> list[VariableTracker]:
        """The elements in the order in which CPython iterates over the set."""
        if len(self.entries) < 2:
            return list(self.entries.values())
        existing = set_history.keeps_order(self.history)
        if existing is not None:
            members = tuple(item.constant() if item.is_constant() else item.identity() for item in existing.elements)
            tx.guard(SetOrderMatch(existing.value.source, members))
            return list(self.entries.values())
        if self.shadow is None:
            unsupported("set-order", value=self.describe())
        if not all(isinstance(key, (int, float)) for key in self.shadow):
            rely_on_process("the order of a set differs between processes")
        return [self.entries[key] for key in self.shadow]

    def unpack(self, tx: Tracer) -> list[VariableTracker]:
        return self.ordered(tx)

    def iterate(self, tx: Tracer) -> VariableTracker:
        return SetIterator(self, self.ordered(tx))

    def iterate_in_any_order(self, tx: Tracer) -> VariableTracker:
        items = list(self.entries.values())
        classes = {item.python_type() if item.is_constant() else None for item in items}
        return SetIterator(self, items) if classes <= {int, bool} or classes <= {str} else self.iterate(tx)

    # -- protocol ------------------------------------------------------------------------------------------------

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        return boolean(not is_none_of(tx, item, self.entries) and searched_key(tx, self.entries, item) in self.entries)

    def hash_key(self, tx: Tracer) -> Any:
        tx.raise_error(TypeError, f"unhashable type: {self.cls.__name__!r}")

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        other = held(other)
        if op not in METHODS or reflected or not isinstance(other, SetVariable):
            return None
        return self.combined(tx, METHODS[op], [other])

    def inplace(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        other = held(other)
        if self.cls is not set or op not in METHODS or not isinstance(other, SetVariable):
            return None
        self.combine(tx, IN_PLACE[METHODS[op]], other)
        return self

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        theirs = set_form(tx, other)
        if theirs is None:
            return None
        left, right = self.entries.keys(), theirs.entries.keys()
        results = {"==": left == right, "!=": left != right, "<=": left <= right, "<": left < right,
                   ">=": left >= right, ">": left > right}  # fmt: skip
        return boolean(results[op])

    # -- changes -------------------------------------------------------------------------------------------------

    def changed(self, tx: Tracer, method: str, *operands: set_history.Operand | VariableTracker) -> None:
        """To be called before each change, with the method call that repeats it."""
        tx.effects.mutate(self)
        if isinstance(self.history, Existing):
            self.changed_at = tx.break_step()
        self.history = Step(self.history, method, operands)

    def recorded(self, tx: Tracer) -> History:
        """The history for another set that is made from this one."""
        if self.source is None or isinstance(self.history, Existing):
            return self.history
        return Changed(tx.break_step())

    def add(self, tx: Tracer, item: VariableTracker) -> None:
        key = key_of(tx, self.entries, item)
        if key in self.entries:
            return
        item = item.specialize(tx)
        self.changed(tx, "add", item)
        self.entries[key] = item
        if self.shadow is not None:
            if is_fixed(item):
                self.shadow.add(key)
            else:
                self.shadow = None

    def discard(self, tx: Tracer, key: Any) -> None:
        if key in self.entries:
            check_release((self.entries[key],), "an element of a set")
            self.changed(tx, "discard", self.entries[key])
            del self.entries[key]
            if self.shadow is not None:
                self.shadow.discard(key)

    def pop(self, tx: Tracer) -> VariableTracker:
        """Removes and returns an element of a set that is not empty."""
        if len(self.entries) > 1 and self.source is not None:
            unsupported("set-order", value=self.describe())
        item = self.ordered(tx)[0]
        check_release((item,), "an element of a set")
        self.changed(tx, "pop")
        del self.entries[item.hash_key(tx)]
        if self.shadow is not None:
            self.shadow.pop()
        return item

    def clear(self, tx: Tracer) -> None:
        check_release(self.entries.values(), "the elements of a set")
        self.changed(tx, "clear")
        self.entries.clear()
        if self.shadow is None and self.source is None:
            self.shadow = set()
        elif self.shadow is not None:
            self.shadow.clear()

    # -- combinations --------------------------------------------------------------------------------------------

    def combined(self, tx: Tracer, method: str, others: Iterable[VariableTracker]) -> SetVariable:
        """self.method(*others), where the method makes a new set"""
        others = list(others)
        if any(other is self for other in others) and method in ("union", "intersection"):
            others = self._but_itself(others)
        operands = [operand_of(tx, other) for other in others]
        entries = dict(self.entries)
        for operand in operands:
            entries = ENTRIES[method](entries, operand)
        shadow = None
        if self.shadow is not None and all(operand.real is not None for operand in operands):
            shadow = getattr(self.shadow, method)(*[operand.real for operand in operands])
        return type(self)(entries, None, shadow, Step(self.recorded(tx), method, tuple(operand.history for operand in operands)))

    def combine(self, tx: Tracer, method: str, *others: VariableTracker) -> None:
        """self.method(*others), where the method changes the set in place"""
        operands = [operand_of(tx, other) for other in others]
        if any(other is self for other in others):
            self._but_itself(others)
            if method in ("difference_update", "symmetric_difference_update"):
                self.clear(tx)
            elif method == "intersection_update":
                unsupported("set-order", value="a set intersected with itself")
            return
        self.changed(tx, method, *[operand.history for operand in operands])
        for operand in operands:
            self.entries = ENTRIES[_MAKING[method]](self.entries, operand)
        if self.shadow is not None and all(operand.real is not None for operand in operands):
            getattr(self.shadow, method)(*[operand.real for operand in operands])
        else:
            self.shadow = None

    def _but_itself(self, others: Sequence[VariableTracker]) -> list[VariableTracker]:
        """No operands, where `others` is the set itself: a union or intersection with itself only copies it."""
        if len(others) > 1:
            unsupported("set-order", value="a set combined with itself and others")
        return []

    # -- code ----------------------------------------------------------------------------------------------------

    def hashed(self) -> Iterable[VariableTracker]:
        return self.children() if self.cls is set and set_history.can_be_filled(self.history) else ()

    def reconstruct(self, cg: ValueCodegen) -> None:
        if cg.awaits_keys(self):
            cg.call_object(set)
        else:
            set_history.Maker(cg).make(self.history)

    def fill(self, cg: ValueCodegen) -> None:
        if cg.awaits_keys(self):
            set_history.Maker(cg).fill(self.history, lambda: cg.load(self))

    def replay(self, cg: ValueCodegen) -> None:
        """Repeats the changes one by one on the set that existed before the frame."""
        self.repeat_changes(cg, lambda: cg.load(self))

    def repeat_changes(self, cg: ValueCodegen, load: Callable[[], None]) -> None:
        """Repeats, on the set that `load` pushes, every change of this set since it was made or found."""
        set_history.Maker(cg).repeat(self.history, load)


METHODS = {"|": "union", "&": "intersection", "-": "difference", "^": "symmetric_difference"}
IN_PLACE = {
    "union": "update",
    "intersection": "intersection_update",
    "difference": "difference_update",
    "symmetric_difference": "symmetric_difference_update",
}
_MAKING = {change: method for method, change in IN_PLACE.items()}


class FrozenSetVariable(SetVariable):
    cls = frozenset
    methods = OF_ANY_SET

    def is_constant(self) -> bool:
        return all(item.is_constant() for item in self.entries.values())

    def constant(self) -> Any:
        if self.shadow is not None:
            return self.shadow
        return frozenset(item.constant() for item in self.entries.values())

    def hash_key(self, tx: Tracer) -> Any:
        return frozenset(self.entries)


class SetIterator(IteratorVariable):
    """iter(set). If the size changes meanwhile, it raises as in CPython; any other change breaks the graph."""

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
        return (whole(self.owner), *self.items)

    def reconstruct(self, cg: ValueCodegen) -> None:
        if self.position == 0 and list(self.owner.entries) == self.keys:
            iterate = set.__iter__ if self.owner.cls is set else frozenset.__iter__
            cg.call_object(iterate, lambda: cg.load(whole(self.owner)))
            return
        unsupported("cannot-reconstruct", value="a half-consumed iterator over a set")


# -- operations --------------------------------------------------------------------------------------------------------


def searched_key(tx: Tracer, entries: Entries, item: VariableTracker) -> Any:
    """The hash key to look an item up by. As in CPython, a set is looked up as the frozenset of its elements."""
    if type(item) is SetVariable:
        return frozenset(item.entries)
    return key_of(tx, entries, item)


def key_of(tx: Tracer, entries: Entries, item: VariableTracker) -> Any:
    return key_in(tx, set, lambda: entries, item)


def set_form(tx: Tracer, value: VariableTracker) -> SetVariable | None:
    """`value` as a set, for comparisons: a set, a frozenset, or a view of keys or items. None for anything else."""
    value = held(value)
    if isinstance(value, SetVariable):
        return value
    as_set = getattr(value, "as_set", None)
    return None if as_set is None else as_set(tx)


@dataclasses.dataclass
class Operand:
    """The other operand of a set operation. `real` is the operand for the shadow, or None where hashes are not known."""

    entries: Entries
    real: Any
    history: set_history.Operand
    is_set: bool = False


def is_set(value: VariableTracker) -> bool:
    """Whether CPython treats the value as a set. That includes instances of subclasses, even if they define __iter__."""
    return isinstance(_storage_of(value), SetVariable)


def _storage_of(value: VariableTracker) -> Any:
    return value if isinstance(value, SetVariable) else getattr(value, "storage", None)


def operand_of(tx: Tracer, value: VariableTracker) -> Operand:
    found = _storage_of(value)
    if isinstance(found, SetVariable):
        return Operand(found.entries, found.shadow, found.recorded(tx), is_set=True)
    return listed(entries_of(tx, value.unpack(tx)), dict if getattr(value, "real_keys", False) else None)


def listed(entries: Entries, base: type[dict[Any, Any]] | None, view: str | None = None) -> Operand:
    """The operand for something that is not a set: an iterable, a dict of class `base`, or a view of one."""
    real: Any = real_elements(entries)
    if real is not None and base is not None:
        real = base.fromkeys(real)
    return Operand(entries, real, Listed(tuple(entries.values()), base, view))


def _united(mine: Entries, other: Operand) -> Entries:
    return {**mine, **{key: item for key, item in other.entries.items() if key not in mine}}


def _common(mine: Entries, other: Operand) -> Entries:
    """CPython takes the elements from the smaller of two sets, and from the other operand if that is not a set."""
    if other.is_set and len(other.entries) > len(mine):
        return {key: item for key, item in mine.items() if key in other.entries}
    return {key: item for key, item in other.entries.items() if key in mine}


def _remaining(mine: Entries, other: Operand) -> Entries:
    return {key: item for key, item in mine.items() if key not in other.entries}


def _not_common(mine: Entries, other: Operand) -> Entries:
    return {**_remaining(mine, other), **{key: item for key, item in other.entries.items() if key not in mine}}


ENTRIES: dict[str, Callable[[Entries, Operand], Entries]] = {
    "union": _united, "intersection": _common, "difference": _remaining, "symmetric_difference": _not_common,
}  # fmt: skip


def made_of(tx: Tracer, value: VariableTracker | None, make: type[SetVariable]) -> SetVariable:
    """set(value) or frozenset(value)"""
    if value is None:
        return make({})
    if make is FrozenSetVariable and type(value) is FrozenSetVariable:
        return value
    operand = operand_of(tx, value)
    shadow = None if operand.real is None else make.cls(operand.real)
    return make(dict(operand.entries), None, shadow, Made(make.cls, (operand.history,)))


def elements(tx: Tracer, value: VariableTracker) -> list[VariableTracker]:
    """The elements of an iterable, where their order does not matter because they go into a set."""
    return list(value.entries.values()) if isinstance(value, SetVariable) else value.unpack(tx)
