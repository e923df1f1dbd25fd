"""The constant bounds that facts put on symbols, and the interval of a term that follows.

The solver's translations use it where they depend on the size of a term (bits, symbolic powers, the sign of a divisor). That is
sound, because the facts are asserted in the same problem. Tested with the translations (`tests/shapes/solver/test_translate.py`).
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
    """Intervals of integer symbols, read from facts such as `x >= 2` and `x <= 4096`. An interval (low, high) includes its ends;
    an end that is not known is -INF or INF. Facts of another form (`x <= y`, `2*x >= 3`) are passed over.

    ```python
    x = sympy.Symbol("x", integer=True)
    assert Bounds([x >= 2, x < 10]).interval(x + 1) == (3, 10)
    ```
    """

    def __init__(self, facts: Iterable[sympy.Basic] = ()) -> None:
        self.symbols: dict[Symbol, Range] = {}
        for fact in facts:
            for conjunct in sympy.And.make_args(fact):
                if isinstance(conjunct, Relational):
                    self._learn(conjunct)

    def _learn(self, relation: Relational) -> None:
        term, operator, bound = readable_sides(relation)  # a bound on the left, as in `2 <= x`, goes to the right
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
        """An interval that contains every value of the integer `expr`, not always the narrowest; EVERYTHING where nothing is
        known, as for an operation without a rule below."""
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
