"""Iterators: over sequences, and the lazy ones of the builtins."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.variables.base import ObservedException, VariableTracker, is_exception, whole
from tracer.variables.lookups import defines

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer, ValueCodegen
    from tracer.variables.sequence_base import SequenceVariable


MOST_ITEMS = 1_000_000


class IteratorVariable(VariableTracker):
    """An iterator that the trace made. Subclasses give `advance` and how to rebuild what is left."""

    cls: type = object

    def python_type(self) -> type:
        return self.cls

    def iterate(self, tx: Tracer) -> VariableTracker:
        return self

    def next(self, tx: Tracer) -> VariableTracker | None:
        tx.effects.mutate(self)
        return self.advance(tx)

    def advance(self, tx: Tracer) -> VariableTracker | None:
        raise NotImplementedError

    def unpack(self, tx: Tracer) -> list[VariableTracker]:
        items: list[VariableTracker] = []
        while (item := self.next(tx)) is not None:
            items.append(item)
            if len(items) > MOST_ITEMS:
                unsupported("trace-too-long", value=MOST_ITEMS)
        return items

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        """Goes on up to the item, as CPython does."""
        while (mine := self.next(tx)) is not None:
            if tx.same_or_equal(mine, item):
                return tx.literal(True)
        return tx.literal(False)

    def container(self) -> VariableTracker | None:
        """What it reads while it goes on, and whose state CPython compares with that at the start."""
        return None

    def truth(self, tx: Tracer) -> bool:
        return True

    def length(self, tx: Tracer) -> VariableTracker:
        tx.raise_error(TypeError, f"object of type {self.python_type().__name__!r} has no len()")

    def hash_key(self, tx: Tracer) -> Any:
        return self

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if defines(self.python_type(), name):
            return tx.bound_builtin_method(self, name)
        tx.raise_error(AttributeError, f"{self.python_type().__name__!r} object has no attribute {name!r}")

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if args or kwargs or name not in ("__iter__", "__next__"):
            unsupported("unsupported-method", value=self.describe(), name=name)
        if name == "__iter__":
            return self
        item = self.next(tx)
        if item is None:
            tx.raise_error(StopIteration)
        return item


def next_of_each(tx: Tracer, iterators: list[VariableTracker]) -> list[VariableTracker] | None:
    """One item of each, None as soon as one is exhausted."""
    items = []
    for iterator in iterators:
        item = iterator.next(tx)
        if item is None:
            return None
        items.append(item)
    return items


def skipped(iterator: Any, count: int) -> Any:
    """The iterator, having given its first `count` items. Called by output code."""
    for _ in range(count):
        next(iterator, None)
    return iterator


class ItemIterator(IteratorVariable):
    """iter(obj) of an object that has `__getitem__` and no `__iter__`; `step` is -1 for reversed(obj)"""

    def __init__(self, owner: VariableTracker, position: int = 0, step: int = 1) -> None:
        self.owner = owner
        self.position = position
        self.step = step
        self.exhausted = False

    def python_type(self) -> type:
        return reversed if self.step < 0 else type(iter(_WithItems()))

    def advance(self, tx: Tracer) -> VariableTracker | None:
        if self.exhausted or self.position < 0:
            return None
        try:
            item = self.owner.get_item(tx, tx.literal(self.position))
        except ObservedException as raised:
            if is_exception(raised.value, (IndexError, StopIteration)):
                self.exhausted = True
                return None
            raise
        self.position += self.step
        return item

    def children(self) -> Iterable[VariableTracker]:
        return (self.owner,)

    def reconstruct(self, cg: ValueCodegen) -> None:
        if self.exhausted or self.step < 0:
            unsupported("cannot-reconstruct", value="an iterator over an object with __getitem__")
        cg.call_object(iter, lambda: cg.load(self.owner))
        _set_state(cg, self.position)


class _WithItems:
    def __getitem__(self, index: int) -> Any:
        raise IndexError


class SequenceIterator(IteratorVariable):
    """iter(list or tuple): reads the sequence as it is when the item is asked for."""

    def __init__(self, sequence: SequenceVariable, position: int = 0) -> None:
        self.sequence: SequenceVariable | None = sequence
        self.position = position
        self._type: type = type(iter([])) if issubclass(sequence.cls, list) else type(iter(()))

    def python_type(self) -> type:
        return self._type

    def advance(self, tx: Tracer) -> VariableTracker | None:
        if self.sequence is None or self.position >= len(self.sequence._items):
            self.sequence = None  # an exhausted iterator stays exhausted
            return None
        self.position += 1
        return self.sequence.item(tx, self.position - 1)

    def container(self) -> VariableTracker | None:
        return self.sequence

    def children(self) -> Iterable[VariableTracker]:
        return () if self.sequence is None else (whole(self.sequence),)

    def reconstruct(self, cg: ValueCodegen) -> None:
        if self.sequence is None:
            cg.asm.emit("BUILD_LIST" if self._type is type(iter([])) else "BUILD_TUPLE", 0)
            cg.asm.emit("GET_ITER")
            return
        if self.sequence.holder is None:
            cg.load(self.sequence)
            cg.asm.emit("GET_ITER")
        else:
            cg.call_object(list.__iter__, functools.partial(cg.load, self.sequence.holder))
        if self.position:
            _set_state(cg, self.position)


class ReversedIterator(IteratorVariable):
    """reversed(list or tuple): the items from the end, as they are when asked for."""

    def __init__(self, sequence: SequenceVariable) -> None:
        self.sequence: SequenceVariable | None = sequence
        self.position = len(sequence._items)
        self._type: type = type(reversed([])) if issubclass(sequence.cls, list) else reversed

    def python_type(self) -> type:
        return self._type

    def advance(self, tx: Tracer) -> VariableTracker | None:
        if self.sequence is None or not 0 < self.position <= len(self.sequence._items):
            self.sequence = None
            return None
        self.position -= 1
        return self.sequence.item(tx, self.position)

    def container(self) -> VariableTracker | None:
        return self.sequence

    def children(self) -> Iterable[VariableTracker]:
        return () if self.sequence is None else (whole(self.sequence),)

    def reconstruct(self, cg: ValueCodegen) -> None:
        if self.sequence is None:
            opname = "BUILD_LIST" if self._type is type(reversed([])) else "BUILD_TUPLE"
            cg.call_object(reversed, lambda: cg.asm.emit(opname, 0))
            return
        holder = self.sequence.holder
        cg.call_object(reversed if holder is None else list.__reversed__, functools.partial(cg.load, holder or self.sequence))
        _set_state(cg, self.position - 1)


def _set_state(cg: ValueCodegen, state: int) -> None:
    """iterator -> iterator, standing elsewhere"""
    cg.asm.emit("COPY", 1)
    cg.load_attr("__setstate__")
    cg.call_top(lambda: cg.load_const(state))
    cg.asm.emit("POP_TOP")


class EnumerateIterator(IteratorVariable):
    cls = enumerate

    def __init__(self, iterator: VariableTracker, start: int, make_pair: Callable[..., VariableTracker]) -> None:
        self.iterator = iterator
        self.count = start
        self._make_pair = make_pair

    def advance(self, tx: Tracer) -> VariableTracker | None:
        item = self.iterator.next(tx)
        if item is None:
            return None
        self.count += 1
        return self._make_pair(self.count - 1, item)

    def children(self) -> Iterable[VariableTracker]:
        return (self.iterator,)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(enumerate, lambda: cg.load(self.iterator), lambda: cg.load_const(self.count))


class ZipIterator(IteratorVariable):
    cls = zip

    def __init__(self, iterators: list[VariableTracker], strict: bool, make_tuple: Callable[..., Any]) -> None:
        self.iterators = iterators
        self.strict = strict
        self._make_tuple = make_tuple

    def advance(self, tx: Tracer) -> VariableTracker | None:
        items = []
        for position, iterator in enumerate(self.iterators):
            item = iterator.next(tx)
            if item is None:
                if self.strict:
                    self._check_strict(tx, position)
                return None
            items.append(item)
        return self._make_tuple(items) if items else None  # zip() of nothing is empty

    def _check_strict(self, tx: Tracer, position: int) -> None:
        if position > 0:
            others = "argument 1" if position == 1 else f"arguments 1-{position}"
            tx.raise_error(ValueError, f"zip() argument {position + 1} is shorter than {others}")
        for later, iterator in enumerate(self.iterators[1:], start=1):
            if iterator.next(tx) is not None:
                others = "argument 1" if later == 1 else f"arguments 1-{later}"
                tx.raise_error(ValueError, f"zip() argument {later + 1} is longer than {others}")

    def children(self) -> Iterable[VariableTracker]:
        return self.iterators

    def reconstruct(self, cg: ValueCodegen) -> None:
        loads = [lambda it=it: cg.load(it) for it in self.iterators]
        cg.call_object(zip, *loads, **({"strict": lambda: cg.load_const(True)} if self.strict else {}))


class MapIterator(IteratorVariable):
    cls = map

    def __init__(self, function: VariableTracker, iterators: list[VariableTracker]) -> None:
        self.function = function
        self.iterators = iterators

    def advance(self, tx: Tracer) -> VariableTracker | None:
        items = next_of_each(tx, self.iterators)
        return None if items is None else self.function.call(tx, items, {})

    def children(self) -> Iterable[VariableTracker]:
        return (self.function, *self.iterators)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(map, *(lambda v=v: cg.load(v) for v in self.children()))


class FilterIterator(IteratorVariable):
    cls: type = filter
    keeps = True  # what the function says of the items that are given

    def __init__(self, function: VariableTracker, iterator: VariableTracker) -> None:
        self.function = function
        self.iterator = iterator

    def advance(self, tx: Tracer) -> VariableTracker | None:
        identity = self.function.is_none()
        while (item := self.iterator.next(tx)) is not None:
            kept = item if identity else self.function.call(tx, [item], {})
            if kept.truth(tx) is self.keeps:
                return item
        return None

    def children(self) -> Iterable[VariableTracker]:
        return (self.function, self.iterator)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(self.cls, lambda: cg.load(self.function), lambda: cg.load(self.iterator))


class SentinelIterator(IteratorVariable):
    """iter(callable, sentinel)"""

    cls = type(iter(int, 1))

    def __init__(self, function: VariableTracker, sentinel: VariableTracker) -> None:
        self.function = function
        self.sentinel = sentinel
        self.exhausted = False

    def advance(self, tx: Tracer) -> VariableTracker | None:
        if self.exhausted:
            return None
        try:
            item = self.function.call(tx, [], {})
        except ObservedException as raised:
            if is_exception(raised.value, StopIteration):
                self.exhausted = True
                return None
            raise
        self.exhausted = tx.same_or_equal(self.sentinel, item)
        return None if self.exhausted else item

    def children(self) -> Iterable[VariableTracker]:
        return (self.function, self.sentinel)

    def reconstruct(self, cg: ValueCodegen) -> None:
        if self.exhausted:
            unsupported("cannot-reconstruct", value="an exhausted iter(callable, sentinel)")
        cg.call_object(iter, lambda: cg.load(self.function), lambda: cg.load(self.sentinel))
