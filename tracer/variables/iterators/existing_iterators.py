"""Built-in iterators that existed before the frame ran, such as the iterator of a loop in which the graph broke.

The trace looks at the items ahead without consuming any; the output code then consumes as many as the program did. The
position at entry is not guarded, so that one cache entry serves every iteration of a loop.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.guards.iterators import ItemsLeft
from tracer.protocol.variable import VariableTracker
from tracer.sources.builtin_iterators import OF_CHANGEABLE, items_left, iterated, take_from, upcoming
from tracer.sources.containers import ItemSource
from tracer.sources.iterators import UpcomingSource
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.iteration import IteratorVariable, ZipIterator
from tracer.variables.values.constant import ONE

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.sources.base import Source

_PAIRS: type = type(iter({}.items()))


class StreamVariable(IteratorVariable):
    """An iterator over a list, tuple, str, range, dict or set."""

    def __init__(self, value: Any, source: Source) -> None:
        self.value = value
        self.source: Source = source
        self.ahead = 0  # how many items the program has taken
        self.exhausted = False
        self.through_others = 0  # how many of them the replay of an enumerate will take
        self.exhausted_by_another = False

    @property
    def was_asked(self) -> bool:
        """Whether the program has asked it for an item of a container that can be changed."""
        return type(self.value) in OF_CHANGEABLE and (self.ahead > 0 or self.exhausted)

    def python_type(self) -> type:
        return type(self.value)

    def identity(self) -> Any:
        return self.value

    def advance(self, tx: Tracer) -> VariableTracker | None:
        trace = tx.trace
        container = trace.builder.known(iterated(self.value))
        if container in tx.effects.mutated or getattr(container, "storage", None) in tx.effects.mutated:
            unsupported("unsupported-iteration", value=self.describe())
        if self.exhausted:
            return None
        if self.ahead == items_left(self.value):
            tx.guard(ItemsLeft(self.source, self.ahead, exactly=True))
            self.exhausted = True
            self.exhausted_by_another = trace.enumerating > 0
            return None
        tx.guard(ItemsLeft(self.source, self.ahead + 1, exactly=False))
        self.through_others += trace.enumerating > 0
        self.ahead += 1
        source = UpcomingSource(self.source, self.ahead - 1)
        item = upcoming(self.value, self.ahead - 1)
        if type(self.value) is _PAIRS:  # a pair is a new tuple
            return TupleVariable([tx.wrap(part, ItemSource(source, index)) for index, part in enumerate(item)])
        return tx.wrap(item, source)

    def replay(self, cg: ValueCodegen) -> None:
        _take(cg, self, self.ahead - self.through_others, self.exhausted and not self.exhausted_by_another)


class EnumerateStream(IteratorVariable):
    """An enumerate over such an iterator or a zip of them. The output code advances the real one, so that its count is right."""

    cls = enumerate

    def __init__(self, source: Source, iterator: VariableTracker, count: VariableTracker) -> None:
        self.source: Source = source
        self.iterator = iterator
        self.count = count
        self.taken = 0
        self.exhausted = False

    def advance(self, tx: Tracer) -> VariableTracker | None:
        trace = tx.trace
        with trace.taking_item():
            item = self.iterator.next(tx)
        if item is None:
            self.exhausted = trace.enumerating == 0
            return None
        if trace.enumerating == 0:
            self.taken += 1
        count, self.count = self.count, tx.binary("+", self.count, ONE)
        return TupleVariable([count, item])

    def replay(self, cg: ValueCodegen) -> None:
        _take(cg, self, self.taken, self.exhausted)


class CountStream(IteratorVariable):
    """An itertools.count of ints. The output code takes as many numbers from the real one as the program did."""

    cls = itertools.count

    def __init__(self, source: Source, current: VariableTracker, step: VariableTracker) -> None:
        self.source: Source = source
        self.current = current
        self.step = step
        self.taken = 0

    def advance(self, tx: Tracer) -> VariableTracker | None:
        self.taken += 1
        number, self.current = self.current, tx.binary("+", self.current, self.step)
        return number

    def replay(self, cg: ValueCodegen) -> None:
        _take(cg, self, self.taken, exhaust=False)


def _take(cg: ValueCodegen, iterator: VariableTracker, count: int, exhaust: bool) -> None:
    if count or exhaust:
        cg.call_object(take_from, lambda: cg.load(iterator), lambda: cg.load_const(count), lambda: cg.load_const(exhaust))
        cg.asm.pop()


def replays_by_asking(iterator: VariableTracker) -> bool:
    """Whether asking the real iterator for items runs no code of the program."""
    if isinstance(iterator, StreamVariable):
        return True
    if isinstance(iterator, EnumerateStream):
        return replays_by_asking(iterator.iterator)
    return isinstance(iterator, ZipIterator) and all(map(replays_by_asking, iterator.iterators))
