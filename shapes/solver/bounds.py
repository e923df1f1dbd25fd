"""The constant bounds that facts put on symbols, and the interval of a term that follows.

Translations use it where they depend on the size of a term (bits, shifts, symbolic powers, the sign of a divisor). That is sound,
because the facts are asserted in the same problem.
"""

import functools
from collections.abc import Callable, Iterable

import sympy
from sympy import Symbol
from sympy.core.relational import Relational

from shapes import ranges
from shapes.printing import readable_sides
from shapes.ranges import INF, Range
from shapes.sympy_functions import FloorDiv, Max, Min, PythonMod

EVERYTHING: Range = (-INF, INF)


class Bounds:
    """Intervals of symbols, read from facts such as `x >= 2` and `x <= 4096`."""

    def __init__(self, facts: Iterable[sympy.Basic] = ()) -> None:
        self.symbols: dict[Symbol, Range] = {}
        for fact in facts:
            for conjunct in sympy.And.make_args(fact):
                if isinstance(conjunct, Relational):
                    self._learn(conjunct)

    def _learn(self, relation: Relational) -> None:
        term, operator, bound = readable_sides(relation)
        if not (isinstance(term, Symbol) and bound.is_Integer):
            return
        low, high = self.symbols.get(term, EVERYTHING)
        value = int(bound)
        if operator in (">=", ">", "=="):
            low = max(low, value + (operator == ">"))
        if operator in ("<=", "<", "=="):
            high = min(high, value - (operator == "<"))
        self.symbols[term] = (low, high)

    def interval(self, expr: sympy.Basic) -> Range:
        """An interval that holds every value of the integer `expr`; everything where nothing is known."""
        if isinstance(expr, Symbol):
            return self.symbols.get(expr, EVERYTHING)
        if expr.is_Integer:
            return int(expr), int(expr)
        rule = _RULES.get(type(expr))
        return EVERYTHING if rule is None else rule(*(self.interval(arg) for arg in expr.args))

    def is_positive(self, expr: sympy.Basic) -> bool:
        return bool(self.interval(expr)[0] > 0)


def _fold(rule: Callable[[Range, Range], Range]) -> Callable[..., Range]:
    return lambda *intervals: functools.reduce(rule, intervals)


_RULES: dict[type, Callable[..., Range]] = {
    sympy.Add: _fold(ranges.add),
    sympy.Mul: _fold(ranges.mul),
    FloorDiv: ranges.floordiv,
    PythonMod: ranges.mod,
    Max: ranges.maximum,
    Min: ranges.minimum,
}
