"""Expressions over sizes and ints as intervals of features: what of a condition C can test with sums of words."""

from __future__ import annotations

import ast
import functools
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from tracer._C import WORD
from tracer.guards.demands import LEAST, MOST, Feature, Interval, Lies, Word
from tracer.sources.base import Source


def number_at(source: Source) -> Word:
    """The word that a source of a number is read as: a size of a tensor, or an int itself."""
    if source.word == WORD.INT or source.base is None:
        return Word(source, WORD.INT)
    return Word(source.base, source.word, getattr(source, "dim", 0))


def intervals_of(template: str, labels: Sequence[Source]) -> tuple[tuple[Lies, ...], bool]:
    """What a condition over labels (Python with `{0}`, `{1}`, ... in their place) demands of linear forms, and whether that is
    all that it says."""
    tree = _parsed(template)
    found = tuple(_condition(tree, [number_at(label) for label in labels]))
    return found, len(found) == _comparisons(tree)


@functools.lru_cache(256)
def _parsed(template: str) -> ast.expr:
    return ast.parse(re.sub(r"\{(\d+)\}", r"_\1", template), mode="eval").body


def _comparisons(tree: ast.expr) -> int:
    """How many comparisons the condition is the conjunction of; -1 if it is none."""
    todo = [tree]
    count = 0
    while todo:
        node = todo.pop()
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            todo += node.values
        elif isinstance(node, ast.Compare):
            count += len(node.ops)
        else:
            return -1
    return count


Atom = Word | Feature  # a Feature here has a modulus
Linear = dict[Any, int]  # atom -> coefficient; the constant under None


class _NotLinear(Exception):
    """An expression that is no sum of words."""


def _condition(node: ast.expr, words: Sequence[Word]) -> Iterator[Lies]:
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


def _demand(difference: Linear, operator: ast.cmpop) -> Iterator[Lies]:
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
        yield Lies(feature, *interval)


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
