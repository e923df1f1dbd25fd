"""collections.deque."""

from __future__ import annotations

import collections
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracer.effects.lifetimes import check_release
from tracer.graph_breaks import unsupported
from tracer.protocol.lazy import Unwrapped
from tracer.protocol.lookups import type_name
from tracer.protocol.models import Models
from tracer.protocol.variable import VariableTracker, held, whole
from tracer.variables.containers.ranges import NOT_AN_INDEX, as_int, index_of
from tracer.variables.containers.sequence_base import Item, SequenceVariable
from tracer.variables.iteration import IteratorVariable
from tracer.variables.slots import call_slot
from tracer.variables.text import form
from tracer.variables.values.constant import NONE, ONE, ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.sources.base import Source


class DequeVariable(SequenceVariable):
    """A deque. `version` changes with every change of length or order; its iterators compare it to notice that."""

    cls = collections.deque
    methods = Models("deque method", SequenceVariable.methods)
    operands = (collections.deque,)

    def __init__(self, items: Iterable[Item], source: Source | None = None, maxlen: int | None = None) -> None:
        super().__init__(items, source)
        self.maxlen = maxlen
        self.version = 0
        if maxlen is not None:
            del self._items[: max(0, len(self._items) - maxlen)]

    def _error_name(self) -> str:
        return "deque"

    def form(self, tx: Tracer) -> Any:
        return collections.deque((form(tx, item) for item in self.items(tx)), self.maxlen)

    def iterate(self, tx: Tracer) -> VariableTracker:
        return DequeIterator(self, backwards=False)

    def reverse_iterate(self, tx: Tracer) -> VariableTracker:
        return DequeIterator(self, backwards=True)

    def hash_key(self, tx: Tracer) -> Any:
        tx.raise_error(TypeError, "unhashable type: 'collections.deque'")

    def position(self, tx: Tracer, key: VariableTracker, action: str) -> Any:
        index = index_of(tx, key)
        if index is NOT_AN_INDEX or isinstance(index, slice):
            tx.raise_error(TypeError, f"sequence index must be integer, not {type_name(key.python_type())!r}")
        if not -len(self._items) <= index < len(self._items):
            tx.raise_error(IndexError, "deque index out of range")
        return index % len(self._items)

    def joined(self, items: list[VariableTracker]) -> VariableTracker:
        return DequeVariable(items, maxlen=self.maxlen)

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        other = held(other)
        if not isinstance(other, DequeVariable):
            return None
        return tx.compare(op, tx.tuple_of(self.items(tx)), tx.tuple_of(other.items(tx)))

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        other = held(other)
        if op == "+" and not isinstance(other, DequeVariable):
            return None
        if op == "+" and not reflected:
            assert isinstance(other, DequeVariable)
            return self.joined(self.items(tx) + other.items(tx))
        return super().binary(tx, op, other, reflected) if op == "*" else None

    def inplace(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if op == "+":
            self.extend(tx, other)
            return self
        times = as_int(tx, other) if op == "*" else None
        if times is not None:
            self.replace(tx, self.repeated(tx, times))
            return self
        return None

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name == "maxlen":
            return ConstantVariable(self.maxlen)
        return super().get_attr(tx, name)

    def set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        if name == "maxlen":
            tx.raise_error(AttributeError, "attribute 'maxlen' of 'collections.deque' objects is not writable")
        super().set_attr(tx, name, value)

    def _find(self, tx: Tracer, item: VariableTracker, start: int, stop: int) -> int | None:
        version = self.version
        position = super()._find(tx, item, start, stop)
        if version != self.version:  # each method that searches raises its own error
            unsupported("unsupported-iteration", value="a deque that a comparison changes")
        return position

    # -- changes -------------------------------------------------------------------------------------------------

    def _change(self, tx: Tracer) -> None:
        tx.effects.mutate(self)
        self.version += 1

    def replace(self, tx: Tracer, items: Iterable[VariableTracker]) -> None:
        self._change(tx)
        self._items[:] = items
        self._trim(from_left=True)

    def append(self, tx: Tracer, item: VariableTracker) -> None:
        self._change(tx)
        self._items.append(item)
        self._trim(from_left=True)

    def append_left(self, tx: Tracer, item: VariableTracker) -> None:
        self._change(tx)
        self._items.insert(0, item)
        self._trim(from_left=False)

    def _trim(self, from_left: bool) -> None:
        excess = 0 if self.maxlen is None else len(self._items) - self.maxlen
        if excess > 0:
            self.keep_only(self._items[excess:] if from_left else self._items[:-excess])
            del self._items[slice(excess) if from_left else slice(-excess, None)]

    def extend(self, tx: Tracer, other: VariableTracker) -> None:
        if other is self:
            other = tx.tuple_of(self.items(tx))
        iterator = other.iterate(tx)
        while (item := iterator.next(tx)) is not None:
            self.append(tx, item)

    def set_item(self, tx: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        index = self.position(tx, key, "")
        check_release((self._items[index],), "an item of a deque")
        tx.effects.mutate(self)  # does not invalidate iterators, so that the version stays
        self._items[index] = value

    def del_item(self, tx: Tracer, key: VariableTracker) -> None:
        index = self.position(tx, key, "")
        check_release((self._items[index],), "an item of a deque")
        self._change(tx)
        del self._items[index]

    # -- code ----------------------------------------------------------------------------------------------------

    def reconstruct(self, cg: ValueCodegen) -> None:
        loads = [lambda: cg.build_sequence("BUILD_LIST", [] if cg.reaches_itself(self) else self._items)]
        if self.maxlen is not None:
            loads.append(lambda: cg.load_const(self.maxlen))
        cg.call_object(collections.deque, *loads)

    def fill(self, cg: ValueCodegen) -> None:
        if cg.reaches_itself(self):
            self.replay(cg)

    def replayed(self) -> Iterable[VariableTracker | Unwrapped]:
        return self._items

    def replay(self, cg: ValueCodegen) -> None:
        if self.version == 0:  # only single items changed; storing them does not invalidate iterators
            for index, item in enumerate(self._items):
                if not isinstance(item, Unwrapped):
                    self._replace(cg, index, item)
            return
        cg.build_sequence("BUILD_LIST", self._items)
        contents = cg.store_temporary()
        cg.call_object(collections.deque.clear, lambda: cg.load(self))
        cg.asm.emit("POP_TOP")
        cg.call_object(collections.deque.extend, lambda: cg.load(self), lambda: cg.asm.load_fast(contents))
        cg.asm.emit("POP_TOP")

    def _replace(self, cg: ValueCodegen, index: int, item: VariableTracker) -> None:
        set_item = collections.deque.__setitem__
        cg.call_object(set_item, lambda: cg.load(self), lambda: cg.load_const(index), lambda: cg.load(item))
        cg.asm.emit("POP_TOP")


class DequeIterator(IteratorVariable):
    """iter(deque) or reversed(deque)"""

    def __init__(self, owner: DequeVariable, backwards: bool) -> None:
        self.owner = owner
        self.backwards = backwards
        self.version = owner.version
        self.position = 0

    def python_type(self) -> type:
        empty = collections.deque[Any]()
        return type(reversed(empty)) if self.backwards else type(iter(empty))

    def advance(self, tx: Tracer) -> VariableTracker | None:
        count = len(self.owner._items)
        if self.version != self.owner.version:
            if self.position >= count:
                unsupported("unsupported-iteration", value="a deque that changed during iteration")
            self.position = count
            tx.raise_error(RuntimeError, "deque mutated during iteration")
        if self.position >= count:
            return None
        self.position += 1
        return self.owner.item(tx, -self.position if self.backwards else self.position - 1)

    def container(self) -> VariableTracker | None:
        return self.owner

    def children(self) -> Iterable[VariableTracker]:
        return (whole(self.owner),)

    def reconstruct(self, cg: ValueCodegen) -> None:
        if self.version != self.owner.version:
            unsupported("cannot-reconstruct", value="an iterator over a deque that changed since")
        loads = [lambda: cg.load(whole(self.owner))]
        if self.position:
            loads.append(lambda: cg.load_const(self.position))
        cg.call_object(self.python_type(), *loads)


_deque = DequeVariable.methods


def _by_index(name: str) -> Any:
    def method(tx: Tracer, self: DequeVariable, key: VariableTracker, /, *value: VariableTracker) -> VariableTracker:
        """Breaks on a key that is no index: its error differs from that of `items[key]`, which a subclass routes here too."""
        if index_of(tx, key) is NOT_AN_INDEX:
            unsupported("unsupported-method", value=self.describe(), name=name)
        return call_slot(tx, self, name, [key, *value], {})

    return method


for _name in ("__getitem__", "__setitem__", "__delitem__"):
    _deque(_name)(_by_index(_name))


@_deque("append")
def _append(tx: Tracer, self: DequeVariable, item: VariableTracker, /) -> VariableTracker:
    self.append(tx, item)
    return NONE


@_deque("appendleft")
def _appendleft(tx: Tracer, self: DequeVariable, item: VariableTracker, /) -> VariableTracker:
    self.append_left(tx, item)
    return NONE


@_deque("extendleft")
def _extendleft(tx: Tracer, self: DequeVariable, other: VariableTracker, /) -> VariableTracker:
    iterator = (tx.tuple_of(self.items(tx)) if other is self else other).iterate(tx)
    while (item := iterator.next(tx)) is not None:
        self.append_left(tx, item)
    return NONE


def _popped(tx: Tracer, self: DequeVariable, index: int) -> VariableTracker:
    if not self._items:
        tx.raise_error(IndexError, "pop from an empty deque")
    check_release((self._items[index],), "an item of a deque")
    item = self.item(tx, index)
    self._change(tx)
    del self._items[index]
    return item


@_deque("pop")
def _pop(tx: Tracer, self: DequeVariable, /) -> VariableTracker:
    return _popped(tx, self, len(self._items) - 1)


@_deque("popleft")
def _popleft(tx: Tracer, self: DequeVariable, /) -> VariableTracker:
    return _popped(tx, self, 0)


@_deque("rotate")
def _rotate(tx: Tracer, self: DequeVariable, steps: VariableTracker = ONE, /) -> VariableTracker:
    count = as_int(tx, steps)
    if count is None:
        unsupported("call-arguments", error="deque.rotate")
    if self._items and count:
        items = collections.deque(self.items(tx))
        items.rotate(count)
        self.replace(tx, items)
    return NONE


@_deque("insert")
def _insert(tx: Tracer, self: DequeVariable, position: VariableTracker, item: VariableTracker, /) -> VariableTracker:
    if self.maxlen is not None and len(self._items) >= self.maxlen:
        tx.raise_error(IndexError, "deque already at its maximum size")
    index = as_int(tx, position)
    if index is None:
        unsupported("call-arguments", error="deque.insert")
    self._change(tx)
    self._items.insert(index, item)
    return NONE


@_deque("remove")
def _remove(tx: Tracer, self: DequeVariable, item: VariableTracker, /) -> VariableTracker:
    position = self._find(tx, item, 0, len(self._items))
    if position is None:
        unsupported("exception-in-trace", error="deque.remove(x): x not in deque")
    check_release((self._items[position],), "an item of a deque")
    self._change(tx)
    del self._items[position]
    return NONE


@_deque("index")
def _index(tx: Tracer, self: DequeVariable, item: VariableTracker, /, *bounds: VariableTracker) -> VariableTracker:
    limits = [as_int(tx, bound) for bound in bounds]
    if len(bounds) > 2 or None in limits:
        unsupported("call-arguments", error="deque.index")
    start, stop, _ = slice(*(limits or [0]), *([None] * (len(limits) < 2))).indices(len(self._items))
    position = self._find(tx, item, start, stop)
    if position is None:
        unsupported("unsupported-method", value=self.describe(), name="index")
    return ConstantVariable(position)


@_deque("copy", "__copy__")
def _copy(tx: Tracer, self: DequeVariable, /) -> VariableTracker:
    return DequeVariable(self.items(tx), maxlen=self.maxlen)


@_deque("__reduce__", "__reduce_ex__")
def _reduce(tx: Tracer, self: DequeVariable, /, *protocol: VariableTracker) -> VariableTracker:
    args = [] if self.maxlen is None else [tx.literal(()), ConstantVariable(self.maxlen)]
    return tx.tuple_of([tx.class_variable(self.cls), tx.tuple_of(args), NONE, self.iterate(tx)])
