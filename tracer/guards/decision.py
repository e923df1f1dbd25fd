"""Which of many entries may hold: a tree over words read of the arguments, made from what their guards demand of these.

A *feature* is a number that `_C` reads of the arguments: a word of a value (its type, its address, a size, ...) or a sum of
such with coefficients, perhaps modulo something. A *test* is the interval in which a guard wants a feature. The guards
demand what the tests say and more, so an entry that the tree leaves out would have been tried in vain.
"""

from __future__ import annotations

import ast
import math
import re
import struct
from collections.abc import Callable, Iterable, Sequence
from types import CodeType
from typing import Any, NamedTuple

import torch

from tracer import _C
from tracer._C import WORD
from tracer.guards.base import Guard
from tracer.guards.constants import EqualsMatch
from tracer.guards.containers import DictKeysMatch, DictLengthReaches, LengthMatch
from tracer.guards.identity import BoolMatch, FunctionMatch, IdMatch, ModuleMatch, NoneMatch, TypeMatch
from tracer.guards.reading import Steps, readable
from tracer.guards.references import ObjectRef
from tracer.guards.shapes import ShapeLine
from tracer.guards.tensors import TensorMatch
from tracer.sources import Source

LEAST, MOST = -(2**63), 2**63 - 1
_ANY = (LEAST, MOST)
_DEEPEST = 8
PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)


class Word(NamedTuple):
    """A word of the value at a source; `dim` of a size or stride. WORD.INT with `dim` 1: the guards want an int there."""

    source: Source
    kind: int
    dim: int = 0


class Feature(NamedTuple):
    """The sum of some words with coefficients, modulo `modulus` if that is not 0."""

    terms: tuple[tuple[int, Word], ...]
    modulus: int = 0


Interval = tuple[int, int]
Tests = dict[Feature, Interval]

# --------------------------------------------------------------------------------------------- what a guard demands


def tests_of(guards: Iterable[Guard]) -> Tests:
    """The interval that each feature lies in where all of the guards hold."""
    tests: Tests = {}
    for guard in guards:
        for feature, (low, high) in demands_of(guard):
            if all(readable(word.source) for _, word in feature.terms):
                known = tests.get(feature, _ANY)
                tests[feature] = max(low, known[0]), min(high, known[1])
    return tests


Demands = Iterable[tuple[Feature, Interval]]


def demands_of(guard: Guard) -> Demands:
    """What a guard wants of features; it may want more."""
    demands = _DEMANDS.get(type(guard))
    return () if demands is None else demands(guard)


def _is(source: Source, kind: int, value: int, dim: int = 0) -> tuple[Feature, Interval]:
    signed = value - 2**64 if value > MOST else value
    return Feature(((1, Word(source, kind, dim)),)), (signed, signed)


def _type(guard: TypeMatch) -> Demands:
    yield _is(guard.source, WORD.TYPE, guard.cls.id)


def _object(guard: IdMatch) -> Demands:
    yield _is(guard.source, WORD.ADDRESS, guard.obj.id)


def _none(guard: NoneMatch) -> Demands:
    if guard.is_none:
        yield _is(guard.source, WORD.ADDRESS, id(None))


def _bool(guard: BoolMatch) -> Demands:
    yield _is(guard.source, WORD.ADDRESS, id(guard.value))


def _constant(guard: EqualsMatch) -> Demands:
    source, value = guard.source, guard.value
    cls = type(value)
    if cls is ObjectRef:
        yield _is(source, WORD.ADDRESS, value.id)
        return
    yield _is(source, WORD.TYPE, id(cls))
    if cls is int and LEAST <= value <= MOST:
        yield _is(source, WORD.INT, value, 1)
    elif cls is str:
        yield _is(source, WORD.HASH, hash(value))
    elif cls is float and value == value:
        yield _is(source, WORD.FLOAT, struct.unpack("q", struct.pack("d", value))[0])
    elif cls is bool or value is None:
        yield _is(source, WORD.ADDRESS, id(value))


def _length(guard: LengthMatch) -> Demands:
    yield _is(guard.source, WORD.LENGTH, guard.length)


def _keys(guard: DictKeysMatch) -> Demands:
    yield _is(guard.source, WORD.LENGTH, len(guard.keys))


def _reaches(guard: DictLengthReaches) -> Demands:
    yield Feature(((1, Word(guard.source, WORD.LENGTH)),)), (guard.count, MOST) if guard.holds else (0, guard.count - 1)


def _tensor(guard: TensorMatch) -> Demands:
    source, spec = guard.source, guard.spec
    yield _is(source, WORD.TYPE, id(spec.cls))
    if spec.cls not in PLAIN_TENSORS:
        return
    if spec.dispatch_keys is not None:
        yield _is(source, WORD.KEYS, spec.dispatch_keys)
    if spec.dtype is not None:
        yield _is(source, WORD.DTYPE, id(spec.dtype))
    if spec.requires_grad is not None:
        yield _is(source, WORD.GRAD, int(spec.requires_grad))
    if spec.sizes is not None:
        yield _is(source, WORD.RANK, len(spec.sizes))
    for kind, dims in ((WORD.SIZE, spec.sizes), (WORD.STRIDE, spec.strides)):
        for dim, value in enumerate(dims or ()):
            if value is not None:
                yield _is(source, kind, value, dim)


def _shape(guard: ShapeLine) -> Demands:
    words = [_number(label) for label in guard.labels]
    tree = ast.parse(re.sub(r"\{(\d+)\}", r"_\1", guard.template), mode="eval")
    return _condition(tree.body, words)


def _number(source: Source) -> Word:
    if source.word == WORD.INT or source.base is None:
        return Word(source, WORD.INT)
    return Word(source.base, source.word, getattr(source, "dim", 0))


_DEMANDS: dict[type[Guard], Callable[[Any], Demands]] = {
    TypeMatch: _type,
    IdMatch: _object,
    FunctionMatch: _object,
    ModuleMatch: _object,
    NoneMatch: _none,
    BoolMatch: _bool,
    EqualsMatch: _constant,
    LengthMatch: _length,
    DictKeysMatch: _keys,
    DictLengthReaches: _reaches,
    TensorMatch: _tensor,
    ShapeLine: _shape,
}


# --------------------------------------------------------------------------------------------- shape expressions

Atom = Word | Feature  # a Feature here has a modulus
Linear = dict[Any, int]  # atom -> coefficient; the constant under None


class _NotLinear(Exception):
    """An expression that is no sum of words."""


def _condition(node: ast.expr, words: Sequence[Word]) -> Demands:
    """What a condition demands of linear forms; nothing of what it says beyond that."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        for part in node.values:
            yield from _condition(part, words)
    elif isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        for left, operator, right in zip(sides, node.ops, sides[1:]):
            try:
                difference = _sum(_linear(left, words), _linear(right, words), -1)
            except _NotLinear:
                continue
            yield from _demand(difference, operator)


def _linear(node: ast.expr, words: Sequence[Word]) -> Linear:
    match node:
        case ast.Constant(int(value)) if type(value) is int:
            return {None: value}
        case ast.Name(name) if re.fullmatch(r"_\d+", name):
            return {words[int(name[1:])]: 1}
        case ast.UnaryOp(ast.USub(), operand):
            return _scaled(_linear(operand, words), -1)
        case ast.BinOp(left, ast.Add() | ast.Sub() as operator, right):
            return _sum(_linear(left, words), _linear(right, words), 1 if isinstance(operator, ast.Add) else -1)
        case ast.BinOp(left, ast.Mult(), right):
            sides = _linear(left, words), _linear(right, words)
            for factor, other in (sides, sides[::-1]):
                if set(factor) <= {None}:
                    return _scaled(other, factor.get(None, 0))
        case ast.BinOp(left, ast.Mod(), ast.Constant(int(modulus))) if modulus > 0:
            dividend = _linear(left, words)
            if not dividend.pop(None, 0) and dividend and all(isinstance(atom, Word) for atom in dividend):
                return {Feature(_terms(dividend), modulus): 1}
    raise _NotLinear


def _sum(left: Linear, right: Linear, sign: int) -> Linear:
    total = dict(left)
    for atom, coefficient in right.items():
        total[atom] = total.get(atom, 0) + sign * coefficient
    return {atom: coefficient for atom, coefficient in total.items() if coefficient or atom is None}


def _scaled(linear: Linear, factor: int) -> Linear:
    return {atom: coefficient * factor for atom, coefficient in linear.items() if factor}


def _terms(linear: Linear) -> tuple[tuple[int, Word], ...]:
    ordered = sorted(linear.items(), key=lambda item: (item[0].source.name, item[0].kind, item[0].dim))
    return tuple([(coefficient, word) for word, coefficient in ordered])


def _demand(difference: Linear, operator: ast.cmpop) -> Demands:
    """`difference` compared with 0, as an interval of a feature."""
    constant = difference.pop(None, 0)
    remainders = [atom for atom in difference if isinstance(atom, Feature)]
    if not difference or (remainders and len(difference) > 1):
        return
    if remainders:
        feature, scale = remainders[0], difference[remainders[0]]
        low, high = 0, feature.modulus - 1
    else:
        terms = _terms(difference)
        scale = math.gcd(*difference.values()) * (1 if terms[0][0] > 0 else -1)
        feature = Feature(tuple([(coefficient // scale, word) for coefficient, word in terms]))
        low, high = LEAST, MOST
    interval = _interval(scale, constant, operator, low, high)
    if interval is not None:
        yield feature, interval


def _interval(scale: int, constant: int, operator: ast.cmpop, low: int, high: int) -> Interval | None:
    """The x from `low` to `high` with scale * x + constant <operator> 0, if these are an interval that is not all."""
    match operator:
        case ast.Lt() | ast.LtE():
            below = -constant - isinstance(operator, ast.Lt)  # scale * x <= below
            low, high = (low, min(high, below // scale)) if scale > 0 else (max(low, -(below // -scale)), high)
        case ast.Gt() | ast.GtE():
            least = -constant + isinstance(operator, ast.Gt)  # scale * x >= least
            low, high = (max(low, -(-least // scale)), high) if scale > 0 else (low, min(high, least // scale))
        case ast.Eq():
            if constant % scale:
                return 0, -1
            low = high = -constant // scale
        case ast.NotEq() if constant % scale == 0 and -constant // scale == low > LEAST:
            low += 1
        case _:
            return None
    return max(low, LEAST), min(high, MOST)


# --------------------------------------------------------------------------------------------- the tree


def decide(entries: tuple[Any, ...], tests: Sequence[Tests], code: CodeType, globals: dict[str, Any]) -> _C.Decision:
    """The decision over entries of which `tests` says what the guards of each demand."""
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
    """Nodes, each behind its children; the last is the root."""

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
        """The node that tells these entries apart, as far as that is worth it."""
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
        """The feature that leaves the fewest in the worst case, with the entries from each start on."""
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
    """The line cut where an interval begins or ends, with the entries whose intervals hold each piece."""
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
    """What is read sooner comes first; the order does not depend on addresses."""
    return len(feature.terms), sum(_depth(word.source) for _, word in feature.terms)


def _depth(source: Source) -> int:
    return 0 if source.base is None else 1 + _depth(source.base)
