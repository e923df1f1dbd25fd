"""Intervals of integers: arithmetic on them, and the interval of each integer function.

A range is a pair (low, high) of ints, or -INF / INF for no bound. Bounds beyond LIMIT are widened. Ranges of floats are pairs of
floats; IEEE operations round monotonically, so the corners are exact.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

INF = math.inf
Bound = Any  # int, or a float infinity
Range = tuple[Bound, Bound]

LIMIT = 1 << 200
EXACT_FLOAT = 1 << 53  # every integer up to here is a float


def clip(low: Bound, high: Bound) -> Range:
    """The range with bounds beyond LIMIT widened."""
    if low > LIMIT:
        low = LIMIT
    elif low < -LIMIT:
        low = -INF
    if high < -LIMIT:
        high = -LIMIT
    elif high > LIMIT:
        high = INF
    return low, high


def intersect(a: Range, b: Range) -> Range:
    return (a[0] if a[0] >= b[0] else b[0]), (a[1] if a[1] <= b[1] else b[1])


def times(a: Bound, b: Bound) -> Bound:
    return 0 if a == 0 or b == 0 else a * b


def add(a: Range, b: Range) -> Range:
    return clip(a[0] + b[0], a[1] + b[1])


def mul(a: Range, b: Range) -> Range:
    if a[0] >= 0 and b[0] >= 0:
        return clip(times(a[0], b[0]), times(a[1], b[1]))
    corners = [times(x, y) for x in a for y in b]
    return clip(min(corners), max(corners))


def scale(a: Range, factor: int) -> Range:
    if factor >= 0:
        return clip(times(a[0], factor), times(a[1], factor))
    return clip(times(a[1], factor), times(a[0], factor))


def _floor(a: Bound, b: Bound) -> Bound:
    """a // b for bounds, b nonzero; the limit where one is infinite."""
    if b in (INF, -INF):
        if a == 0 or a in (INF, -INF):
            return 0
        return 0 if (a > 0) == (b > 0) else -1
    if a in (INF, -INF):
        return a if b > 0 else -a
    return a // b


def floordiv(a: Range, b: Range) -> Range:
    """The range of a // b over all b other than 0."""
    parts = []
    if b[1] >= 1:
        parts.append((max(b[0], 1), b[1]))
    if b[0] <= -1:
        parts.append((b[0], min(b[1], -1)))
    corners = [_floor(x, y) for part in parts for x in a for y in part]
    if not corners:
        return -INF, INF
    for x, y in itertools.product(a, (y for part in parts for y in part)):
        if x in (INF, -INF) and y in (INF, -INF):  # x may outgrow y
            corners.append(INF if (x > 0) == (y > 0) else -INF)
    return min(corners), max(corners)


def mod(a: Range, b: Range) -> Range:
    """0 <= a % b < b for b > 0; b < a % b <= 0 for b < 0"""
    low = 0 if b[0] > 0 else (b[0] + 1 if b[0] > -INF else -INF)
    high = 0 if b[1] < 0 else b[1] - 1
    if b[0] <= 0 <= b[1] and b[0] == 0:
        low = 0
    if b[0] > 0 and a[0] >= 0:
        high = min(high, a[1])
    return low, max(high, 0) if b[1] >= 0 else 0


def maximum(*ranges: Range) -> Range:
    return max(r[0] for r in ranges), max(r[1] for r in ranges)


def minimum(*ranges: Range) -> Range:
    return min(r[0] for r in ranges), min(r[1] for r in ranges)


def power(a: Range, b: Range) -> Range:
    if a[0] >= 1 and b[0] >= 0:
        high = a[1] ** b[1] if a[1] < INF and b[1] <= 64 else INF
        low = a[0] ** b[0] if b[0] <= 64 else 1
        return clip(low, high)
    return (0, INF) if a[0] >= 0 and b[0] >= 0 else (-INF, INF)


def _bits_below(bound: int) -> int:
    return (1 << bound.bit_length()) - 1


def bitand(a: Range, b: Range) -> Range:
    highs = [r[1] for r in (a, b) if r[0] >= 0]  # 0 <= x & y <= x for x >= 0, whatever y is
    return (0, min(highs)) if highs else (-INF, INF)


def bitor(a: Range, b: Range) -> Range:
    if a[0] < 0 or b[0] < 0:
        return -INF, INF
    high = INF if INF in (a[1], b[1]) else _bits_below(max(a[1], b[1]))
    return max(a[0], b[0]), high  # max(x, y) <= x | y for x, y >= 0


def bitxor(a: Range, b: Range) -> Range:
    if a[0] < 0 or b[0] < 0:
        return -INF, INF
    return 0, INF if INF in (a[1], b[1]) else _bits_below(max(a[1], b[1]))


def lshift(a: Range, b: Range) -> Range:
    if b[0] < 0 or b[0] > 64 or b[1] > 64:
        return (0, INF) if a[0] >= 0 else (-INF, INF)
    return mul(a, (1 << b[0], 1 << b[1]))


def rshift(a: Range, b: Range) -> Range:
    if b[0] < 0 or b[0] > 64:
        return (0, max(a[1], 0)) if a[0] >= 0 else (-INF, INF)
    return floordiv(a, (1 << b[0], 1 << b[1] if b[1] <= 64 else INF))


def join(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])


def rounded(rounding: Callable[[float], int]) -> Callable[[Range], Range]:
    def bounds(a: Range) -> Range:
        low = a[0] if math.isinf(a[0]) else rounding(a[0])
        high = a[1] if math.isinf(a[1]) else rounding(a[1])
        return clip(low, high)

    return bounds


# ---------------------------------------------------------------------------------------------------- floats

ANY_FLOAT: Range = (-INF, INF)  # may be nan, and makes everything that is computed from it ANY_FLOAT


def _corners(operation: Callable[[float, float], float], a: Range, b: Range) -> Range:
    values = [operation(x, y) for x in a for y in b]
    return ANY_FLOAT if any(math.isnan(value) for value in values) else (min(values), max(values))


def to_float(a: Range) -> Range:
    return (
        -INF if a[0] < -EXACT_FLOAT else float(min(a[0], EXACT_FLOAT)),
        INF if a[1] > EXACT_FLOAT else float(max(a[1], -EXACT_FLOAT)),
    )


def float_div(a: Range, b: Range) -> Range:
    return ANY_FLOAT if b[0] <= 0 <= b[1] else _corners(operator.truediv, a, b)


def int_div(a: Range, b: Range) -> Range:
    """The range of a / b for integers. These are finite, so the corner oo/oo can be left out: it lies between the others."""
    if b[0] <= 0 <= b[1]:
        return ANY_FLOAT
    values = [x / y for x in to_float(a) for y in to_float(b)]
    values = [value for value in values if not math.isnan(value)]
    return min(values), max(values)


def float_neg(a: Range) -> Range:
    return -a[1], -a[0]


def float_abs(a: Range) -> Range:
    low, high = abs(a[0]), abs(a[1])
    return (0.0 if a[0] <= 0 <= a[1] else min(low, high)), max(low, high)


def float_add(a: Range, b: Range) -> Range:
    return _corners(operator.add, a, b)


def float_sub(a: Range, b: Range) -> Range:
    return _corners(operator.sub, a, b)


def float_mul(a: Range, b: Range) -> Range:
    return _corners(operator.mul, a, b)


def show_range(r: Range) -> str:
    """`[2, 16]`, `[2, oo)`"""
    low = "(-oo" if r[0] == -INF else f"[{r[0]}"
    high = "oo)" if r[1] == INF else f"{r[1]}]"
    return f"{low}, {high}"
