"""What lists and tuples share: items, subscripts, comparison, concatenation, search."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracer.effects.lifetimes import check_release
from tracer.graph_breaks import unsupported
from tracer.protocol.error_words import not_in_sequence
from tracer.protocol.lazy import Unwrapped, realize
from tracer.protocol.lookups import defines, no_place_for, type_name
from tracer.protocol.models import Models
from tracer.protocol.variable import VariableTracker, held
from tracer.variables.containers.ranges import NOT_AN_INDEX, as_int, index_of
from tracer.variables.iteration import ReversedIterator, SequenceIterator
from tracer.variables.slots import COMPARE, BuiltinVariable
from tracer.variables.text import form, formatted
from tracer.variables.values.constant import NONE, ConstantVariable, boolean

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.sources.base import Source

Item = VariableTracker | Unwrapped
LONGEST = 1_000_000  # the most items of a sequence that the trace makes


class SequenceVariable(BuiltinVariable):
    """A built-in sequence of tracked values; items that existed before the frame are wrapped when first read."""

    cls: type = object
    methods = Models("sequence method")

    def __init__(self, items: Iterable[Item], source: Source | None = None) -> None:
        self._items: list[Item] = list(items)
        self.source = source

    def describe(self) -> str:
        return f"{type(self).__name__}(length={len(self._items)})"

    def item(self, tx: Tracer, index: int) -> VariableTracker:
        return realize(tx, self._items, index)

    def items(self, tx: Tracer) -> list[VariableTracker]:
        return [realize(tx, self._items, index) for index in range(len(self._items))]

    def unpack(self, tx: Tracer) -> list[VariableTracker]:
        return self.items(tx)

    def children(self) -> Iterable[VariableTracker]:
        return (item for item in self._items if isinstance(item, VariableTracker))

    def holdings(self) -> Iterable[Item]:
        return self._items

    def form(self, tx: Tracer) -> Any:
        return [form(tx, item) for item in self.items(tx)]

    def keep_only(self, items: Iterable[Item]) -> None:
        """To be called before all items but these are dropped. Breaks the graph if that may run a finalizer (`check_release`)."""
        kept = set(map(id, items))
        check_release((item for item in self._items if id(item) not in kept), f"an item of a {self._error_name()}")

    def graph_arg(self) -> Any:
        args = [item.graph_arg() for item in self._realized()]
        return tuple(args) if issubclass(self.cls, tuple) else args

    def _realized(self) -> list[VariableTracker]:
        for item in self._items:
            if isinstance(item, Unwrapped):
                unsupported("not-a-graph-argument", value=self.describe())
        return self._items  # type: ignore[return-value]  # none is unwrapped

    # -- protocol ------------------------------------------------------------------------------------------------

    def truth(self, tx: Tracer) -> bool:
        return bool(self._items)

    def length(self, tx: Tracer) -> VariableTracker:
        return ConstantVariable(len(self._items))

    def iterate(self, tx: Tracer) -> VariableTracker:
        return SequenceIterator(self)

    def reverse_iterate(self, tx: Tracer) -> VariableTracker:
        return ReversedIterator(self)

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        index = self.position(tx, key, "index")
        if isinstance(index, slice):
            return self.like(self.items(tx)[index])
        return self.item(tx, index)

    def position(self, tx: Tracer, key: VariableTracker, action: str) -> Any:
        """The slice, or the position from the start, that a subscript denotes. Any other key raises CPython's error."""
        index = index_of(tx, key)
        name = self._error_name()
        if index is NOT_AN_INDEX:
            tx.raise_error(TypeError, f"{name} indices must be integers or slices, not {type_name(key.python_type())}")
        if isinstance(index, slice):
            return index
        if not -len(self._items) <= index < len(self._items):
            tx.raise_error(IndexError, f"{name} {action} out of range")
        return index % len(self._items)

    def _error_name(self) -> str:
        return "list" if issubclass(self.cls, list) else "tuple"

    def like(self, items: list[VariableTracker]) -> VariableTracker:
        """A new sequence of the kind that slicing this one gives."""
        return type(self)(items)

    def joined(self, items: list[VariableTracker]) -> VariableTracker:
        """A new sequence of the kind that + and * give."""
        return self.like(items)

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        return boolean(self._find(tx, item, 0, len(self._items)) is not None)

    def _find(self, tx: Tracer, item: VariableTracker, start: int, stop: int) -> int | None:
        """The first position of an equal item. Items are read one at a time, since a comparison may change the sequence."""
        position = start
        while position < min(stop, len(self._items)):
            if tx.same_or_equal(self.item(tx, position), item):
                return position
            position += 1
        return None

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        if op == "+" and not reflected:
            more = _sequence_of(other)
            if more is not None and issubclass(self.cls, list) == issubclass(more.cls, list):
                return self.concatenated(tx, more)
            return None
        if op == "*":
            times = as_int(tx, other)
            return None if times is None else self.multiplied(tx, times)
        if op == "%" and reflected and other.is_constant() and isinstance(other.constant(), str):
            return formatted(tx, lambda text, value: text % value, [other, self], {})
        return None

    def concatenated(self, tx: Tracer, other: SequenceVariable) -> VariableTracker:
        return self.joined(self.items(tx) + other.items(tx))

    def multiplied(self, tx: Tracer, times: int) -> VariableTracker:
        return self.joined(self.repeated(tx, times))

    def repeated(self, tx: Tracer, times: int) -> list[VariableTracker]:
        if len(self._items) * times > LONGEST:
            unsupported("constant-too-large", value=f"a {self.cls.__name__} of {len(self._items) * times} items")
        return self.items(tx) * times

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        other = _sequence_of(other)  # type: ignore[assignment]  # narrowed below
        if not isinstance(other, SequenceVariable) or not _comparable(self.cls, other.cls):
            return None
        if op in ("==", "!=") and len(self._items) != len(other._items):
            return boolean(op == "!=")
        position = 0
        while position < min(len(self._items), len(other._items)):
            left, right = self.item(tx, position), other.item(tx, position)
            if not tx.same_or_equal(left, right):  # the comparison may have shortened them
                if position >= min(len(self._items), len(other._items)):
                    break
                return boolean(op == "!=") if op in ("==", "!=") else tx.compare(op, left, right)
            position += 1
        return boolean(COMPARE[op](len(self._items), len(other._items)))

    def set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        if defines(self.cls, name):
            unsupported("unsupported-attribute-store", value=self.describe(), name=name)
        tx.raise_error(AttributeError, no_place_for(self.cls, name))


def _sequence_of(value: VariableTracker) -> SequenceVariable | None:
    """The sequence itself, or the one that an instance of a subclass holds. None for anything else."""
    storage = held(value)
    if not isinstance(storage, SequenceVariable):
        return None
    if storage is not value and issubclass(storage.cls, tuple):  # a copy, so that no operator returns the storage itself
        return type(storage)(storage._items)
    return storage


def _comparable(left: type, right: type) -> bool:
    return any(issubclass(left, base) and issubclass(right, base) for base in (list, tuple))


@SequenceVariable.methods("index")
def _index(tx: Tracer, self: SequenceVariable, item: VariableTracker, /, *bounds: VariableTracker) -> VariableTracker:
    start, stop = 0, len(self._items)
    if bounds:
        numbers = [as_int(tx, bound) for bound in bounds]
        if None in numbers or len(numbers) > 2:
            unsupported("call-arguments", error=f"{self.cls.__name__}.index")
        start, stop, _ = slice(numbers[0], numbers[1] if len(numbers) > 1 else None).indices(len(self._items))
    position = self._find(tx, item, start, stop)
    if position is not None:
        return ConstantVariable(position)
    if issubclass(self.cls, list):
        tx.raise_error(ValueError, not_in_sequence(list, lambda: formatted(tx, repr, [item], {}).constant()))
    tx.raise_error(ValueError, "tuple.index(x): x not in tuple")


@SequenceVariable.methods("count")
def _count(tx: Tracer, self: SequenceVariable, item: VariableTracker, /) -> VariableTracker:
    return ConstantVariable(sum(tx.same_or_equal(mine, item) for mine in self.items(tx)))


# -- of lists and deques -------------------------------------------------------------------------------------------------


@SequenceVariable.methods("extend")
def _extend(tx: Tracer, self: Any, other: VariableTracker, /) -> VariableTracker:
    self.extend(tx, other)
    return NONE


@SequenceVariable.methods("reverse")
def _reverse(tx: Tracer, self: Any, /) -> VariableTracker:
    self.replace(tx, self.items(tx)[::-1])
    return NONE


@SequenceVariable.methods("clear")
def _clear(tx: Tracer, self: Any, /) -> VariableTracker:
    self.keep_only(())
    self.replace(tx, [])
    return NONE
