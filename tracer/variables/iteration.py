"""Iterators over sequences, and the lazy iterators of the builtins: enumerate, zip, map, filter and iter."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import type_name
from tracer.protocol.variable import ObservedException, VariableTracker, is_exception, whole
from tracer.variables.slots import BuiltinVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.variables.containers.sequence_base import SequenceVariable


MOST_ITEMS = 1_000_000


class IteratorVariable(BuiltinVariable):
    """An iterator that the trace models. Subclasses define `advance`, and how to reconstruct what is left of it."""

    cls: type = object

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
        """Consumes items up to and including the one sought, as CPython does."""
        while (mine := self.next(tx)) is not None:
            if tx.same_or_equal(mine, item):
                return tx.literal(True)
        return tx.literal(False)

    def container(self) -> VariableTracker | None:
        """The container that it reads as it advances. CPython may compare the state of that with the state at the start."""
        return None

    def length(self, tx: Tracer) -> VariableTracker:
        tx.raise_error(TypeError, f"object of type {type_name(self.python_type())!r} has no len()")

    def hash_key(self, tx: Tracer) -> Any:
        return self


class LazyIterator(IteratorVariable):
    """An iterator that takes items from others. `parts` names the attributes with the tracked values that it holds: each is one
    value, a list of values, or None if there is none (any more)."""

    parts: ClassVar[tuple[str, ...]] = ()

    def children(self) -> Iterable[VariableTracker]:
        for name in self.parts:
            part = getattr(self, name)
            if isinstance(part, list):
                yield from (each for each in part if each is not None)
            elif part is not None:
                yield part

    def reconstruct(self, cg: ValueCodegen) -> None:
        """Calls the class with all that the iterator holds. This serves where such a call makes an iterator over what is left."""
        cg.call_object(self.cls, *loads(cg, self.children()))


def loads(cg: ValueCodegen, values: Iterable[VariableTracker]) -> list[Callable[[], None]]:
    """Functions that push the values, as `call_object` takes them."""
    return [functools.partial(cg.load, value) for value in values]


def next_of_each(tx: Tracer, iterators: list[VariableTracker]) -> list[VariableTracker] | None:
    """One item of each iterator, or None as soon as one is exhausted."""
    items = []
    for iterator in iterators:
        item = iterator.next(tx)
        if item is None:
            return None
        items.append(item)
    return items


def skipped(iterator: Any, count: int) -> Any:
    """Consumes `count` items and returns the iterator. Called by output code."""
    for _ in range(count):
        next(iterator, None)
    return iterator


class ItemIterator(LazyIterator):
    """iter(obj) of an object that has `__getitem__` and no `__iter__`. `step` is -1 for reversed(obj)."""

    parts = ("owner",)

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

    def reconstruct(self, cg: ValueCodegen) -> None:
        if self.exhausted or self.step < 0:
            unsupported("cannot-reconstruct", value="an iterator over an object with __getitem__")
        cg.call_object(iter, lambda: cg.load(self.owner))
        set_state(cg, lambda: cg.load_const(self.position))


class _WithItems:
    def __getitem__(self, index: int) -> Any:
        raise IndexError


class OverSequence(IteratorVariable):
    """An iterator over a list or a tuple. It reads the sequence as it is when an item is asked for, and drops it at the end."""

    def __init__(self, sequence: SequenceVariable, position: int, of_list: type, of_tuple: type) -> None:
        self.sequence: SequenceVariable | None = sequence
        self.position = position
        self._is_of_list = issubclass(sequence.cls, list)
        self._type = of_list if self._is_of_list else of_tuple

    def python_type(self) -> type:
        return self._type

    def container(self) -> VariableTracker | None:
        return self.sequence

    def children(self) -> Iterable[VariableTracker]:
        return () if self.sequence is None else (whole(self.sequence),)

    def _rebuild(self, cg: ValueCodegen, function: Any, of_subclass: Any, position: int | None) -> None:
        """-> function(sequence), set to `position` if one is given. For an instance of a subclass of list, which may override
        the method, `of_subclass` is called instead."""
        if self.sequence is None:
            cg.call_object(function, lambda: cg.asm.emit("BUILD_LIST" if self._is_of_list else "BUILD_TUPLE", 0))
            return
        maker = function if self.sequence.holder is None else of_subclass
        cg.call_object(maker, functools.partial(cg.load, whole(self.sequence)))
        if position is not None:
            set_state(cg, lambda: cg.load_const(position))


class SequenceIterator(OverSequence):
    """iter(list or tuple)"""

    def __init__(self, sequence: SequenceVariable, position: int = 0) -> None:
        super().__init__(sequence, position, type(iter([])), type(iter(())))

    def advance(self, tx: Tracer) -> VariableTracker | None:
        if self.sequence is None or self.position >= len(self.sequence._items):
            self.sequence = None
            return None
        self.position += 1
        return self.sequence.item(tx, self.position - 1)

    def reconstruct(self, cg: ValueCodegen) -> None:
        self._rebuild(cg, iter, list.__iter__, self.position or None)


class ReversedIterator(OverSequence):
    """reversed(list or tuple)"""

    def __init__(self, sequence: SequenceVariable) -> None:
        super().__init__(sequence, len(sequence._items), type(reversed([])), reversed)

    def advance(self, tx: Tracer) -> VariableTracker | None:
        if self.sequence is None or not 0 < self.position <= len(self.sequence._items):
            self.sequence = None
            return None
        self.position -= 1
        return self.sequence.item(tx, self.position)

    def reconstruct(self, cg: ValueCodegen) -> None:
        self._rebuild(cg, reversed, list.__reversed__, self.position - 1)


def set_state(cg: ValueCodegen, load: Callable[[], None]) -> None:
    """iterator -> the same iterator, after a call of its `__setstate__` with the value that `load` pushes"""
    cg.asm.emit("COPY", 1)
    cg.load_attr("__setstate__")
    cg.call_top(load)
    cg.asm.emit("POP_TOP")


class EnumerateIterator(LazyIterator):
    cls = enumerate
    parts = ("iterator", "count")

    def __init__(self, iterator: VariableTracker, start: VariableTracker) -> None:
        self.iterator = iterator
        self.count = start

    def advance(self, tx: Tracer) -> VariableTracker | None:
        item = self.iterator.next(tx)
        if item is None:
            return None
        count, one = self.count, tx.literal(1)
        self.count = tx.literal(count.constant() + 1) if count.is_constant() else tx.binary("+", count, one)
        return tx.tuple_of([count, item])


class ZipIterator(LazyIterator):
    cls = zip
    parts = ("iterators",)

    def __init__(self, iterators: list[VariableTracker], strict: bool) -> None:
        self.iterators = iterators
        self.strict = strict

    def advance(self, tx: Tracer) -> VariableTracker | None:
        items = []
        for position, iterator in enumerate(self.iterators):
            item = iterator.next(tx)
            if item is None:
                if self.strict:
                    self._check_strict(tx, position)
                return None
            items.append(item)
        return tx.tuple_of(items) if items else None  # zip() of nothing is empty

    def _check_strict(self, tx: Tracer, position: int) -> None:
        if position > 0:
            others = "argument 1" if position == 1 else f"arguments 1-{position}"
            tx.raise_error(ValueError, f"zip() argument {position + 1} is shorter than {others}")
        for later, iterator in enumerate(self.iterators[1:], start=1):
            if iterator.next(tx) is not None:
                others = "argument 1" if later == 1 else f"arguments 1-{later}"
                tx.raise_error(ValueError, f"zip() argument {later + 1} is longer than {others}")

    def reconstruct(self, cg: ValueCodegen) -> None:
        named = {"strict": lambda: cg.load_const(True)} if self.strict else {}
        cg.call_object(zip, *loads(cg, self.iterators), **named)


class MapIterator(LazyIterator):
    cls = map
    parts = ("function", "iterators")

    def __init__(self, function: VariableTracker, iterators: list[VariableTracker]) -> None:
        self.function = function
        self.iterators = iterators

    def advance(self, tx: Tracer) -> VariableTracker | None:
        items = next_of_each(tx, self.iterators)
        return None if items is None else self.function.call(tx, items, {})


class FilterIterator(LazyIterator):
    cls: type = filter
    parts = ("function", "iterator")
    keeps = True  # the truth value that the function gives for items that are kept

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


class SentinelIterator(LazyIterator):
    """iter(callable, sentinel)"""

    cls = type(iter(int, 1))
    parts = ("function", "sentinel")

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

    def reconstruct(self, cg: ValueCodegen) -> None:
        if self.exhausted:
            unsupported("cannot-reconstruct", value="an exhausted iter(callable, sentinel)")
        cg.call_object(iter, *loads(cg, self.children()))
