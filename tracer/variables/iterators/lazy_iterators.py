"""The iterators of itertools that take items from other iterators. Each can be reconstructed half consumed, around those."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

from tracer.protocol.variable import ObservedException, VariableTracker
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.iteration import FilterIterator, LazyIterator, next_of_each, skipped
from tracer.variables.values.constant import NONE

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen

Value = VariableTracker


def _empty(cg: ValueCodegen) -> None:
    cg.asm.emit("BUILD_TUPLE", 0)


# -- called by output code: iterators of itertools have no state that can be set since Python 3.14 ---------------------------


def accumulated_from(total: Any, iterator: Any, function: Any) -> Any:
    """itertools.accumulate(..., function) that has given `total`, and goes on with `iterator`."""
    given: dict[str, Any] = {} if total is None else {"initial": total}
    made = itertools.accumulate(iterator if given else itertools.chain((total,), iterator), function, **given)
    next(made)
    return made


def _is_refused(item: Any) -> bool:
    """The predicate of a dropwhile that has begun to give items."""
    return False


class EndingIterator(LazyIterator):
    """One that an exception of an iterator it takes items from ends for good, even where that iterator has more."""

    def advance(self, tx: Tracer) -> Value | None:
        try:
            return self.take(tx)
        except ObservedException:
            self.end()
            raise

    def take(self, tx: Tracer) -> Value | None:
        raise NotImplementedError

    def end(self) -> None:
        raise NotImplementedError


class ChainIterator(LazyIterator):
    """itertools.chain: `active` is the iterator in use, and `sources` iterates over the iterables that follow it."""

    cls = itertools.chain
    parts = ("sources", "active")

    def __init__(self, sources: Value) -> None:
        self.sources: Value | None = sources
        self.active: Value | None = None

    def advance(self, tx: Tracer) -> Value | None:
        while self.sources is not None:
            if self.active is None:
                following = self.sources.next(tx)
                if following is None:
                    self.sources = None
                    return None
                self.active = following.iterate(tx)
            item = self.active.next(tx)
            if item is not None:
                return item
            self.active = None
        return None

    def reconstruct(self, cg: ValueCodegen) -> None:
        sources = self.sources
        rest = (lambda: _empty(cg)) if sources is None else (lambda: cg.load(sources))
        if self.active is None:
            cg.call_object(itertools.chain.from_iterable, rest)
            return
        first = self.active
        cg.call_object(
            itertools.chain.from_iterable,
            lambda: cg.call_object(itertools.chain, lambda: cg.build_sequence("BUILD_TUPLE", [first]), rest),
        )


class SliceIterator(EndingIterator):
    """itertools.islice: `taken` counts the items taken from the iterator, `following` is the index of the next one to give."""

    cls = itertools.islice
    parts = ("iterator",)

    def __init__(self, iterator: Value, start: int, stop: int | None, step: int) -> None:
        self.iterator: Value | None = iterator
        self.following = start
        self.stop = stop
        self.step = step
        self.taken = 0

    def end(self) -> None:
        self.iterator = None

    def take(self, tx: Tracer) -> Value | None:
        iterator = self.iterator
        if iterator is None:
            return None
        while self.taken < self.following:
            if iterator.next(tx) is None:
                self.end()
                return None
            self.taken += 1
        if self.stop is not None and self.taken >= self.stop:
            self.end()
            return None
        item = iterator.next(tx)
        if item is None:
            self.end()
            return None
        self.taken += 1
        self.following += self.step
        if self.stop is not None:
            self.following = min(self.following, self.stop)
        return item

    def reconstruct(self, cg: ValueCodegen) -> None:
        if self.iterator is None:
            cg.call_object(itertools.islice, lambda: _empty(cg), lambda: cg.load_const(0))
            return
        bounds = (self.following - self.taken, None if self.stop is None else self.stop - self.taken, self.step)
        loads = [lambda bound=bound: cg.load_const(bound) for bound in bounds]
        cg.call_object(itertools.islice, functools.partial(cg.load, self.iterator), *loads)


class CountIterator(LazyIterator):
    """itertools.count"""

    cls = itertools.count
    parts = ("current", "step")

    def __init__(self, current: Value, step: Value) -> None:
        self.current = current
        self.step = step

    def advance(self, tx: Tracer) -> Value | None:
        item = self.current
        self.current = tx.binary("+", item, self.step)
        return item


class RepeatIterator(LazyIterator):
    """itertools.repeat: `left` is None if it repeats without end."""

    cls = itertools.repeat
    parts = ("item",)

    def __init__(self, item: Value, left: int | None) -> None:
        self.item = item
        self.left = left

    def advance(self, tx: Tracer) -> Value | None:
        if self.left is not None:
            if self.left <= 0:
                return None
            self.left -= 1
        return self.item

    def reconstruct(self, cg: ValueCodegen) -> None:
        loads = [lambda: cg.load(self.item)]
        if self.left is not None:
            loads.append(lambda: cg.load_const(self.left))
        cg.call_object(itertools.repeat, *loads)


class CycleIterator(LazyIterator):
    """itertools.cycle: items are saved in the first round, then given again."""

    cls = itertools.cycle
    parts = ("iterator", "saved")

    def __init__(self, iterator: Value) -> None:
        self.iterator: Value | None = iterator
        self.saved: list[Value] = []
        self.position = 0

    def advance(self, tx: Tracer) -> Value | None:
        if self.iterator is not None:
            item = self.iterator.next(tx)
            if item is not None:
                self.saved.append(item)
                return item
            self.iterator = None
        if not self.saved:
            return None
        item = self.saved[self.position]
        self.position = (self.position + 1) % len(self.saved)
        return item

    def reconstruct(self, cg: ValueCodegen) -> None:
        if self.iterator is not None:
            saved = lambda: cg.build_sequence("BUILD_TUPLE", self.saved)  # noqa: E731
            rest = functools.partial(cg.load, self.iterator)
            begun = lambda: cg.call_object(itertools.chain, saved, rest)  # noqa: E731
            cg.call_object(skipped, lambda: cg.call_object(itertools.cycle, begun), lambda: cg.load_const(len(self.saved)))
            return
        items = [*self.saved[self.position :], *self.saved[: self.position]]
        cg.call_object(itertools.cycle, lambda: cg.build_sequence("BUILD_TUPLE", items))


class AccumulateIterator(LazyIterator):
    """itertools.accumulate: `total` is None before the first item."""

    cls = itertools.accumulate
    parts = ("iterator", "function", "initial", "total")

    def __init__(self, iterator: Value, function: Value | None, initial: Value | None) -> None:
        self.iterator = iterator
        self.function = function
        self.initial = initial
        self.total: Value | None = None

    def advance(self, tx: Tracer) -> Value | None:
        if self.initial is not None:
            self.total, self.initial = self.initial, None
            return self.total
        item = self.iterator.next(tx)
        if item is None:
            return None
        if self.total is None:
            self.total = item
        elif self.function is None:
            self.total = tx.binary("+", self.total, item)
        else:
            self.total = self.function.call(tx, [self.total, item], {})
        return self.total

    def reconstruct(self, cg: ValueCodegen) -> None:
        loads = [lambda: cg.load(self.iterator), lambda: cg.load(self.function or NONE)]
        if self.total is not None:
            cg.call_object(accumulated_from, functools.partial(cg.load, self.total), *loads)
            return
        named = {} if self.initial is None else {"initial": functools.partial(cg.load, self.initial)}
        cg.call_object(itertools.accumulate, *loads, **named)


class ZipLongestIterator(EndingIterator):
    """itertools.zip_longest: in `iterators`, None replaces an exhausted iterator."""

    cls = itertools.zip_longest
    parts = ("iterators", "fill_value")

    def __init__(self, iterators: list[Value], fill: Value) -> None:
        self.iterators: list[Value | None] = list(iterators)
        self.fill_value = fill

    def end(self) -> None:
        self.iterators = [None] * len(self.iterators)

    def take(self, tx: Tracer) -> Value | None:
        if all(iterator is None for iterator in self.iterators):
            return None
        items = []
        for position, iterator in enumerate(self.iterators):
            item = None if iterator is None else iterator.next(tx)
            if item is None:
                self.iterators[position] = None
                if all(other is None for other in self.iterators):
                    return None
            items.append(self.fill_value if item is None else item)
        return TupleVariable(items)

    def reconstruct(self, cg: ValueCodegen) -> None:
        loads = [functools.partial(_empty, cg) if it is None else functools.partial(cg.load, it) for it in self.iterators]
        cg.call_object(itertools.zip_longest, *loads, fillvalue=lambda: cg.load(self.fill_value))


class FilterFalseIterator(FilterIterator):
    cls = itertools.filterfalse
    keeps = False


class WhileIterator(LazyIterator):
    """itertools.takewhile and dropwhile: `decided` is set once the predicate was false."""

    parts = ("predicate", "iterator")

    def __init__(self, cls: type, predicate: Value, iterator: Value) -> None:
        self.cls = cls
        self.predicate = predicate
        self.iterator = iterator
        self.decided = False

    def advance(self, tx: Tracer) -> Value | None:
        takes = self.cls is itertools.takewhile
        if self.decided:
            return None if takes else self.iterator.next(tx)
        while (item := self.iterator.next(tx)) is not None:
            if self.predicate.call(tx, [item], {}).truth(tx):
                if takes:
                    return item
                continue
            self.decided = True
            return None if takes else item
        return None

    def reconstruct(self, cg: ValueCodegen) -> None:
        if not self.decided:
            super().reconstruct(cg)
        elif self.cls is itertools.takewhile:
            cg.call_object(self.cls, lambda: cg.load(self.predicate), lambda: _empty(cg))
        else:
            cg.call_object(self.cls, lambda: cg.load_object(_is_refused), lambda: cg.load(self.iterator))


class StarMapIterator(LazyIterator):
    """itertools.starmap"""

    cls = itertools.starmap
    parts = ("function", "iterator")

    def __init__(self, function: Value, iterator: Value) -> None:
        self.function = function
        self.iterator = iterator

    def advance(self, tx: Tracer) -> Value | None:
        item = self.iterator.next(tx)
        return None if item is None else self.function.call(tx, item.unpack(tx), {})


class CompressIterator(LazyIterator):
    """itertools.compress"""

    cls = itertools.compress
    parts = ("iterators",)

    def __init__(self, data: Value, selectors: Value) -> None:
        self.iterators = [data, selectors]

    def advance(self, tx: Tracer) -> Value | None:
        while (pair := next_of_each(tx, self.iterators)) is not None:
            if pair[1].truth(tx):
                return pair[0]
        return None


class PairwiseIterator(EndingIterator):
    """itertools.pairwise: `old` is the first item of the next pair."""

    cls = itertools.pairwise
    parts = ("iterator", "old")

    def __init__(self, iterator: Value) -> None:
        self.iterator: Value | None = iterator
        self.old: Value | None = None

    def end(self) -> None:
        self.iterator = self.old = None

    def take(self, tx: Tracer) -> Value | None:
        if self.iterator is None:
            return None
        if self.old is None:
            self.old = self.iterator.next(tx)
        old = self.old
        if old is None or self.iterator is None:  # taking the item may have re-entered this method
            self.end()
            return None
        new = self.iterator.next(tx)
        if new is None:
            self.end()
            return None
        self.old = new
        return TupleVariable([old, new])

    def reconstruct(self, cg: ValueCodegen) -> None:
        if self.old is None or self.iterator is None:
            load = functools.partial(_empty, cg) if self.iterator is None else functools.partial(cg.load, self.iterator)
            cg.call_object(itertools.pairwise, load)
            return
        old, rest = self.old, functools.partial(cg.load, self.iterator)
        cg.call_object(
            itertools.pairwise,
            lambda: cg.call_object(itertools.chain, lambda: cg.build_sequence("BUILD_TUPLE", [old]), rest),
        )


class BatchedIterator(EndingIterator):
    """itertools.batched (from 3.12 on). A last batch that is not full ends nothing: the iterator is asked again."""

    cls = getattr(itertools, "batched", object)
    parts = ("iterator",)

    def __init__(self, iterator: Value, size: int, strict: bool) -> None:
        self.iterator: Value | None = iterator
        self.size = size
        self.strict = strict

    def end(self) -> None:
        self.iterator = None

    def take(self, tx: Tracer) -> Value | None:
        iterator, items = self.iterator, list[Value]()
        if iterator is None:
            return None
        while len(items) < self.size:
            item = iterator.next(tx)
            if item is None:
                break
            items.append(item)
        if not items:
            self.end()
            return None
        if self.strict and len(items) < self.size:
            tx.raise_error(ValueError, "batched(): incomplete batch")
        return TupleVariable(items)

    def reconstruct(self, cg: ValueCodegen) -> None:
        load = functools.partial(_empty, cg) if self.iterator is None else functools.partial(cg.load, self.iterator)
        named = {"strict": lambda: cg.load_const(True)} if self.strict else {}
        cg.call_object(self.cls, load, lambda: cg.load_const(self.size), **named)
