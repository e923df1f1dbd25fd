"""Which of many entries may hold: a tree over words that C reads from the arguments, made from the demands of the guards.

A *feature* is a number that `_C` reads from the arguments: a word of a value (its type, its address, a size, ...) or a sum of
words with coefficients, perhaps modulo something. A *test* is the interval in which a guard wants a feature. All tests of an
entry follow from its guards, so an entry that the tree leaves out cannot hold.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType
from typing import Any

import torch

from tracer import _C
from tracer._C import WORD
from tracer.guards.base import Guard
from tracer.guards.constants import SINGLETONS
from tracer.guards.demands import (
    LEAST,
    MOST,
    Demand,
    Equal,
    Feature,
    Interval,
    Is,
    Keys,
    Length,
    Lies,
    OfType,
    Tensor,
    Word,
    word_is,
)
from tracer.guards.reading import Steps, readable
from tracer.sources.base import Source

_ANY = (LEAST, MOST)
_DEEPEST = 8
PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)

Tests = dict[Feature, Interval]

# --------------------------------------------------------------------------------------------- what demands say of features


def tests_of(guards: Iterable[Guard]) -> Tests:
    """For each feature, the interval in which it lies if all of the guards hold."""
    tests: Tests = {}
    for guard in guards:
        for demand in guard.demands():
            for feature, low, high in intervals_of(demand):
                if all(readable(word.source) for _, word in feature.terms):
                    known = tests.get(feature, _ANY)
                    tests[feature] = max(low, known[0]), min(high, known[1])
    return tests


def intervals_of(demand: Demand) -> Iterator[tuple[Feature, int, int]]:
    """The intervals of features that follow from a demand. The demand may say more than they do."""
    for lies in _INTERVALS.get(type(demand), _nothing)(demand):
        yield lies.feature, lies.low, lies.high


def _nothing(demand: Any) -> Iterator[Lies]:
    return iter(())


def _type(demand: OfType) -> Iterator[Lies]:
    yield word_is(demand.source, WORD.TYPE, demand.cls.id)


def _object(demand: Is) -> Iterator[Lies]:
    yield word_is(demand.source, WORD.ADDRESS, demand.obj.id)


def _constant(demand: Equal) -> Iterator[Lies]:
    source, value = demand.source, demand.value
    yield word_is(source, WORD.TYPE, id(type(value)))
    yield from value_word(source, value)


def value_word(source: Source, value: Any) -> Iterator[Lies]:
    """The word in which a plain constant differs from others of its type; nothing for types without one."""
    cls = type(value)
    if cls is int and LEAST <= value <= MOST:
        yield word_is(source, WORD.INT, value, 1)
    elif cls is str:
        yield word_is(source, WORD.HASH, hash(value))
    elif cls is float and value == value:
        yield word_is(source, WORD.FLOAT, struct.unpack("q", struct.pack("d", value))[0])
    elif cls in SINGLETONS:
        yield word_is(source, WORD.ADDRESS, id(value))


def _length(demand: Length) -> Iterator[Lies]:
    yield Lies(Feature(((1, Word(demand.source, WORD.LENGTH)),)), demand.least, demand.most)


def _keys(demand: Keys) -> Iterator[Lies]:
    yield word_is(demand.source, WORD.LENGTH, len(demand.keys))


def _tensor(demand: Tensor) -> Iterator[Lies]:
    source, spec = demand.source, demand.spec
    yield word_is(source, WORD.TYPE, id(spec.cls))
    if spec.cls not in PLAIN_TENSORS:
        return
    if spec.dispatch_keys is not None:
        yield word_is(source, WORD.KEYS, spec.dispatch_keys)
    if spec.dtype is not None:
        yield word_is(source, WORD.DTYPE, id(spec.dtype))
    if spec.requires_grad is not None:
        yield word_is(source, WORD.GRAD, int(spec.requires_grad))
    if spec.sizes is not None:
        yield word_is(source, WORD.RANK, len(spec.sizes))
    for kind, dims in ((WORD.SIZE, spec.sizes), (WORD.STRIDE, spec.strides)):
        for dim, value in enumerate(dims or ()):
            if value is not None:
                yield word_is(source, kind, value, dim)


_INTERVALS: dict[type[Demand], Callable[[Any], Iterator[Lies]]] = {
    OfType: _type,
    Is: _object,
    Equal: _constant,
    Length: _length,
    Keys: _keys,
    Tensor: _tensor,
    Lies: lambda demand: iter((demand,)),
}


# --------------------------------------------------------------------------------------------- the tree


def decide(entries: tuple[Any, ...], tests: Sequence[Tests], code: CodeType, globals: dict[str, Any]) -> _C.Decision:
    """The decision over some entries; `tests` has the intervals of each, from `tests_of`."""
    tree = _Tree(tests)
    tree.place(tuple(range(len(entries))))
    steps = Steps.of_call(code, globals)
    features = tuple([
        (feature.modulus, tuple([(factor, word.kind, word.dim, steps.of(word.source)) for factor, word in feature.terms]))
        for feature in tree.used
    ])  # fmt: skip
    return _C.Decision(entries, tuple(steps.steps), features, tuple(tree.nodes))


Node = tuple[int, tuple[int, ...], tuple[int, ...], int, int]


class _Tree:
    """Nodes, each after its children; the last is the root."""

    def __init__(self, tests: Sequence[Tests]) -> None:
        self.nodes: list[Node] = []
        self.used: dict[Feature, int] = {}
        self._tests = tests
        self._most_nodes = 64 + 8 * len(tests)
        self._known: dict[tuple[int, ...], int] = {}
        counts: dict[Feature, set[Interval]] = {}
        demanding: dict[Feature, int] = {}
        for of_entry in tests:
            for feature, interval in of_entry.items():
                counts.setdefault(feature, set()).add(interval)
                demanding[feature] = demanding.get(feature, 0) + 1
        telling = [f for f, seen in counts.items() if len(seen) > 1 or demanding[f] < len(tests)]
        self._features = sorted(telling, key=_cost)

    def place(self, entries: tuple[int, ...], depth: int = 0) -> int:
        """The index of the node that chooses among these entries. It is a leaf, which leaves all of them, if no feature divides
        them or the tree would become too large."""
        known = self._known.get(entries)
        if known is not None:
            return known
        split = self._split(entries) if len(entries) > 1 and depth < _DEEPEST and len(self.nodes) < self._most_nodes else None
        if split is None:
            node: Node = (-1, (), entries, -1, -1)
        else:
            feature, segments = split
            children = tuple([self.place(segment, depth + 1) for _, segment in segments])
            absent = self.place(tuple([i for i in entries if feature not in self._tests[i]]), depth + 1)
            node = (
                self.used.setdefault(feature, len(self.used)),
                tuple([start for start, _ in segments]),
                children,
                absent,
                self._leaf(entries),
            )
        self.nodes.append(node)
        self._known[entries] = len(self.nodes) - 1
        return len(self.nodes) - 1

    def _leaf(self, entries: tuple[int, ...]) -> int:
        self.nodes.append((-1, (), entries, -1, -1))
        return len(self.nodes) - 1

    def _split(self, entries: tuple[int, ...]) -> tuple[Feature, list[tuple[int, tuple[int, ...]]]] | None:
        """The feature that leaves the fewest entries in the worst case, with its segments (see `_segments`); None if no feature
        leaves fewer than there are."""
        best, fewest = None, len(entries)
        for feature in self._features:
            intervals = {i: self._tests[i].get(feature, _ANY) for i in entries}
            if len(set(intervals.values())) > 1:
                segments = _segments(intervals)
                most = max(len(members) for _, members in segments)
                if most < fewest:
                    best, fewest = (feature, segments), most
                    if most == 1:
                        break
        return best


def _segments(intervals: dict[int, Interval]) -> list[tuple[int, tuple[int, ...]]]:
    """The integers, cut wherever an interval begins or ends: for each segment its start and the entries whose intervals contain
    it."""
    changes: dict[int, list[tuple[int, bool]]] = {LEAST: []}
    for entry, (low, high) in intervals.items():
        if low <= high:
            changes.setdefault(low, []).append((entry, True))
            if high < MOST:
                changes.setdefault(high + 1, []).append((entry, False))
    found: list[tuple[int, tuple[int, ...]]] = []
    present: set[int] = set()
    for start in sorted(changes):
        for entry, enters in changes[start]:
            (present.add if enters else present.discard)(entry)
        members = tuple(sorted(present))
        if not found or found[-1][1] != members:
            found.append((start, members))
    return found


def _cost(feature: Feature) -> tuple[int, int]:
    """The order in which features are tried: those that take fewer reads first. It does not depend on addresses."""
    return len(feature.terms), sum(_depth(word.source) for _, word in feature.terms)


def _depth(source: Source) -> int:
    return 0 if source.base is None else 1 + _depth(source.base)
