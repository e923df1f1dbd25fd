"""The iterators of itertools that store items: product, combinations and permutations, tee, groupby."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tracer.graph_breaks import unsupported
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.iteration import IteratorVariable, LazyIterator, skipped
from tracer.variables.values.constant import NONE

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen

Value = VariableTracker


class PoolIterator(IteratorVariable):
    """product, combinations, permutations and combinations_with_replacement. `tuples` holds all results, computed beforehand."""

    def __init__(self, cls: type, pools: list[list[Value]], options: dict[str, int], tuples: list[TupleVariable]) -> None:
        self.cls = cls
        self.pools = pools
        self.options = options
        self.tuples = tuples
        self.position = 0

    def advance(self, tx: Tracer) -> Value | None:
        if self.position >= len(self.tuples):
            return None
        self.position += 1
        return self.tuples[self.position - 1]

    def children(self) -> Iterable[Value]:
        return [item for pool in self.pools for item in pool]

    def reconstruct(self, cg: ValueCodegen) -> None:
        loads = [lambda pool=pool: cg.build_sequence("BUILD_TUPLE", pool) for pool in self.pools]
        named = {name: (lambda number=number: cg.load_const(number)) for name, number in self.options.items()}
        if not self.position:
            cg.call_object(self.cls, *loads, **named)
        else:
            cg.call_object(skipped, lambda: cg.call_object(self.cls, *loads, **named), lambda: cg.load_const(self.position))


class TeeIterator(LazyIterator):
    """One of the iterators of itertools.tee. They share `buffer`, which holds the items taken from the source iterator."""

    cls = itertools._tee  # type: ignore[attr-defined]  # private in the library
    parts = ("iterator", "buffer")

    def __init__(self, iterator: Value, buffer: list[Value]) -> None:
        self.iterator = iterator
        self.buffer = buffer
        self.position = 0

    def advance(self, tx: Tracer) -> Value | None:
        if self.position == len(self.buffer):
            item = self.iterator.next(tx)
            if item is None:
                return None
            self.buffer.append(item)
        self.position += 1
        return self.buffer[self.position - 1]

    def reconstruct(self, cg: ValueCodegen) -> None:
        unsupported("cannot-reconstruct", value="an iterator of itertools.tee")


class GroupByIterator(LazyIterator):
    """itertools.groupby: `current` is the item read ahead and `key` its key; `wanted` is the key of the group given last."""

    cls = itertools.groupby
    parts = ("iterator", "function", "current", "key")

    def __init__(self, iterator: Value, function: Value | None) -> None:
        self.iterator = iterator
        self.function = function
        self.current: Value | None = None
        self.key: Value | None = None
        self.wanted: Value | None = None
        self.group: GroupIterator | None = None

    def step(self, tx: Tracer) -> bool:
        """Takes the next item. Returns False at the end."""
        item = self.iterator.next(tx)
        if item is None:
            return False
        self.current = item
        self.key = item if self.function is None else self.function.call(tx, [item], {})
        return True

    def advance(self, tx: Tracer) -> Value | None:
        self.group = None
        while self.key is None or (self.wanted is not None and tx.same_or_equal(self.wanted, self.key)):
            if not self.step(tx):
                return None
        self.wanted = self.key
        self.group = GroupIterator(self, self.key)
        return TupleVariable([self.key, self.group])

    def reconstruct(self, cg: ValueCodegen) -> None:
        if self.key is not None:
            unsupported("cannot-reconstruct", value="a half-consumed itertools.groupby")
        cg.call_object(itertools.groupby, lambda: cg.load(self.iterator), lambda: cg.load(self.function or NONE))


class GroupIterator(LazyIterator):
    """One group. It is valid until the next group is asked for."""

    cls = itertools._grouper  # type: ignore[attr-defined]  # private in the library
    parts = ("parent", "key")

    def __init__(self, parent: GroupByIterator, key: Value) -> None:
        self.parent = parent
        self.key = key

    def advance(self, tx: Tracer) -> Value | None:
        parent = self.parent
        if parent.group is not self:
            return None
        if parent.current is None and not parent.step(tx):
            return None
        if parent.key is None:  # the key function took items from this very group
            unsupported("unsupported-iteration", value=self.describe())
        if not tx.same_or_equal(self.key, parent.key):
            return None
        item, parent.current, parent.key = parent.current, None, None
        return item

    def reconstruct(self, cg: ValueCodegen) -> None:
        unsupported("cannot-reconstruct", value="a group of itertools.groupby")
