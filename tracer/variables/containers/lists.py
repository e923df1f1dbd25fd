"""list. Tuples are in `tuples`, range and slice in `ranges`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tracer.effects.lifetimes import check_release
from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import defines, type_name
from tracer.protocol.models import Models
from tracer.protocol.variable import ObservedException, VariableTracker
from tracer.variables.containers.ranges import RangeVariable, SliceVariable, as_int, index_of
from tracer.variables.containers.sequence_base import LONGEST, Item, SequenceVariable
from tracer.variables.containers.tuples import NamedTupleVariable, SizeVariable, TupleVariable
from tracer.variables.values.constant import FALSE, NONE, ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.sources.base import Source


class ListVariable(SequenceVariable):
    """A list. The contents of a list that existed before the frame, and its length, are read and guarded only when the program
    first uses them: a list that is only appended to may have any length."""

    cls = list
    methods = Models("list method", SequenceVariable.methods)
    operands = (list,)
    _held: list[Item]
    _unread: Callable[[], list[Item]] | None = None

    @classmethod
    def unread(cls, read: Callable[[], list[Item]], source: Source) -> ListVariable:
        """A list whose contents are not read yet. `read` guards the length and returns the items."""
        made = cls((), source)
        made._unread = read
        return made

    @property
    def _items(self) -> list[Item]:
        if self._unread is not None:
            read, self._unread = self._unread, None
            self._held[:0] = read()
        return self._held

    @_items.setter
    def _items(self, items: list[Item]) -> None:
        self._held = items

    def is_read(self) -> bool:
        return self._unread is None

    def describe(self) -> str:
        return f"ListVariable(length={len(self._held) if self._unread is None else 'unread'})"

    def children(self) -> Iterable[VariableTracker]:
        return (item for item in self._held if isinstance(item, VariableTracker))

    def holdings(self) -> Iterable[Item]:
        return self._held

    def hash_key(self, tx: Tracer) -> Any:
        tx.raise_error(TypeError, "unhashable type: 'list'")

    def set_item(self, tx: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        index = self.position(tx, key, "assignment index")
        if isinstance(index, slice):
            if value.is_constant() and not defines(value.python_type(), "__iter__"):
                unsupported("call-arguments", error="a slice of a list is assigned something that is not iterable")
            length, new = len(self.items(tx)), value.unpack(tx)
            items = list(self.items(tx))
            if len(items) != length:  # versions of CPython differ in when they count them
                unsupported(
                    "call-arguments", error="a slice of a list is assigned an iterator that changes the length of the list"
                )
            try:
                items[index] = new
            except ValueError as error:
                tx.raise_error(ValueError, *error.args)
            self.keep_only(items)
            self.replace(tx, items)
            return
        check_release((self._items[index],), "an item of a list")
        tx.effects.mutate(self)
        self._items[index] = value

    def del_item(self, tx: Tracer, key: VariableTracker) -> None:
        index = self.position(tx, key, "assignment index")
        check_release(self._items[index] if isinstance(index, slice) else (self._items[index],), "an item of a list")
        tx.effects.mutate(self)
        del self._items[index]

    def replace(self, tx: Tracer, items: Iterable[VariableTracker]) -> None:
        """self[:] = items"""
        tx.effects.mutate(self)
        self._items[:] = items

    def extend(self, tx: Tracer, other: VariableTracker) -> None:
        """Appends the items one by one, so that an iterator over this very list sees them as it would in CPython."""
        tx.effects.mutate(self)
        if getattr(other, "storage", None) is self:  # an instance of a subclass: CPython takes the items that it has now
            other = TupleVariable(self.items(tx))
        if isinstance(other, SequenceVariable):
            more = other.items(tx)
            self._held.extend(more)
            return
        iterator = other.measured(tx)
        while (item := iterator.next(tx)) is not None:
            self._items.append(item)
            if len(self._items) > LONGEST:
                unsupported("trace-too-long", value=LONGEST)

    def inplace(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if op == "+":
            self.extend(tx, other)
            return self
        if op == "*":
            times = as_int(tx, other)
            if times is not None:
                self.keep_only(self._items if times > 0 else ())
                self.replace(tx, self.repeated(tx, times))
                return self
        return None

    def reconstruct(self, cg: ValueCodegen) -> None:
        if cg.reaches_itself(self):
            cg.asm.emit("BUILD_LIST", 0)
        else:
            cg.build_sequence("BUILD_LIST", self._items)

    def fill(self, cg: ValueCodegen) -> None:
        if cg.reaches_itself(self):
            self.replay(cg)

    def replayed(self) -> Iterable[Item]:
        return self._held

    def replay(self, cg: ValueCodegen) -> None:
        """Gives the list that existed before the frame its new contents: self[:] = items"""
        if self._unread is not None:
            cg.call_object(list.extend, lambda: cg.load(self), lambda: cg.build_sequence("BUILD_LIST", self._held))
            cg.asm.pop()
            return
        if self.holder is not None:  # the class of the holder may override __setitem__
            items = lambda: cg.build_sequence("BUILD_LIST", self._items)  # noqa: E731
            cg.call_object(list.__setitem__, lambda: cg.load(self), lambda: cg.load_const(slice(None)), items)
            cg.asm.emit("POP_TOP")
            return
        cg.build_sequence("BUILD_LIST", self._items)
        cg.load(self)
        cg.load_const(slice(None))
        cg.asm.emit("STORE_SUBSCR")


_list = ListVariable.methods
LAST = ConstantVariable(-1)


@_list("__init__")
def _init(tx: Tracer, self: ListVariable, iterable: VariableTracker | None = None, /) -> VariableTracker:
    self.replace(tx, [])
    if iterable is not None:
        self.extend(tx, iterable)
    return NONE


@_list("append")
def _append(tx: Tracer, self: ListVariable, item: VariableTracker, /) -> VariableTracker:
    tx.effects.mutate(self)
    self._held.append(item)
    return NONE


@_list("insert")
def _insert(tx: Tracer, self: ListVariable, position: VariableTracker, item: VariableTracker, /) -> VariableTracker:
    index = _int_argument(tx, position)
    tx.effects.mutate(self)
    self._items.insert(index, item)
    return NONE


def _int_argument(tx: Tracer, value: VariableTracker) -> int:
    number = as_int(tx, value)
    if number is None:
        tx.raise_error(TypeError, f"{type_name(value.python_type())!r} object cannot be interpreted as an integer")
    return number


@_list("pop")
def _pop(tx: Tracer, self: ListVariable, position: VariableTracker = LAST, /) -> VariableTracker:
    index = _int_argument(tx, position)
    if not self._items:
        tx.raise_error(IndexError, "pop from empty list")
    if not -len(self._items) <= index < len(self._items):
        tx.raise_error(IndexError, "pop index out of range")
    check_release((self._items[index],), "an item of a list")
    item = self.item(tx, index % len(self._items))
    tx.effects.mutate(self)
    del self._items[index]
    return item


@_list("remove")
def _remove(tx: Tracer, self: ListVariable, item: VariableTracker, /) -> VariableTracker:
    position = self._find(tx, item, 0, len(self._items))
    if position is None:
        tx.raise_error(ValueError, "list.remove(x): x not in list")
    check_release((self._items[position],), "an item of a list")
    tx.effects.mutate(self)
    del self._items[position]
    return NONE


@_list("copy", "__copy__")
def _copy(tx: Tracer, self: ListVariable, /) -> VariableTracker:
    return ListVariable(self.items(tx))


@_list("sort")
def _sort(tx: Tracer, self: ListVariable, /, *, key: VariableTracker = NONE, reverse: VariableTracker = FALSE) -> VariableTracker:
    """While CPython sorts a list, it shows it as empty. An exception breaks the graph: the order it leaves is not modelled."""
    items = self.items(tx)
    self.replace(tx, [])
    try:
        result = tx.sorted(items, key, reverse)
    except ObservedException:
        unsupported("exception-in-trace", error="an exception while a list is sorted")
    if self._items:
        tx.raise_error(ValueError, "list modified during sort")
    self.replace(tx, result)
    return NONE


__all__ = [
    "ListVariable", "NamedTupleVariable", "RangeVariable", "SequenceVariable", "SizeVariable", "SliceVariable",
    "TupleVariable", "index_of",
]  # fmt: skip
