"""Float expressions: floats that Python computes from sizes, kept operation by operation.

Only constants are folded: rounding obeys few laws, so nothing is reordered or simplified. The solver treats float expressions as
unknowns. A comparison of floats that is exactly equivalent to one of integers becomes that one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from shapes.operations import FLOAT, INTEGER
from shapes.polynomial import IntExpr
from shapes.ranges import EXACT_FLOAT, Range
from shapes.relations import FLOAT_RELATIONS, BoolExpr, Relations

if TYPE_CHECKING:
    from shapes.algebra import Algebra
    from shapes.symbols import Symbol


class FloatExpr:
    """A float expression; equal ones are one object."""

    __slots__ = ("algebra", "op", "args", "const", "hint", "symbol", "functions", "handle", "sympy_form", "__weakref__")

    algebra: Algebra
    op: str  # "const", "symbol" or a key of operations.FLOAT
    args: tuple[Any, ...]
    const: float | None
    hint: float | None
    symbol: Symbol | None
    functions: int  # as of an IntExpr
    handle: Any
    sympy_form: Any

    @property
    def sympy(self) -> Any:
        return self.algebra.to_sympy(self)

    def __repr__(self) -> str:
        return repr(self.const) if self.const is not None else self.algebra.show(self)


class Floats(Relations):
    """Making float expressions."""

    def __init__(self) -> None:
        super().__init__()
        self._floats: dict[tuple[Any, ...], FloatExpr] = {}

    def float_constant(self, value: float) -> FloatExpr:
        if not isinstance(value, (int, float)):
            raise TypeError(f"a float is needed here, not {type(value).__name__} {value!r}")
        value = float(value)
        return self._float(("const", value.hex()), "const", (), value, value, None)

    def float_symbol(self, symbol: Symbol) -> FloatExpr:
        return self._float(("symbol", symbol), "symbol", (), None, symbol.hint, symbol)

    def float_operation(self, op: str, *args: Any) -> FloatExpr:
        """`op(*args)`; constants are folded as Python folds them, and raise what Python raises."""
        constants = [arg.const for arg in args]
        if None not in constants:
            return self.float_constant(_real(FLOAT[op].python(*constants)))
        hints = [arg.hint for arg in args]
        hint = None if None in hints else _real(FLOAT[op].python(*hints))
        return self._float((op, *args), op, args, None, hint, None)

    def to_float(self, p: IntExpr) -> FloatExpr:
        return self.float_operation("float", p)

    def _float(
        self,
        key: tuple[Any, ...],
        op: str,
        args: tuple[Any, ...],
        const: float | None,
        hint: float | None,
        symbol: Symbol | None,
    ) -> FloatExpr:
        found = self._floats.get(key)
        if found is None:
            found = FloatExpr()
            found.algebra = self  # type: ignore[assignment]  # an Algebra
            found.op, found.args, found.const, found.hint, found.symbol = op, args, const, hint, symbol
            found.functions = 0 if op in ("const", "symbol") else 1 + sum(arg.functions for arg in args)
            found.handle = found.sympy_form = None
            self._floats[key] = found
        return found

    def rounded(self, kind: str, x: FloatExpr) -> IntExpr:
        """The integer floor(x), ceil(x), trunc(x) or round(x)."""
        if x.const is not None:
            return self.integer(INTEGER[kind].python(x.const))
        if x.op == "float" and self.fits_float(x.args[0]):  # floor(float(p)) -> p while every value of p is a float
            integer: IntExpr = x.args[0]
            return integer
        return self.function(kind, x)

    def range(self, p: IntExpr) -> Range:
        """The values that `p` may have. An algebra knows facts of it."""
        raise NotImplementedError

    def fits_float(self, p: IntExpr) -> bool:
        """Whether float(p) is exactly p for every value of p."""
        low, high = self.range(p)
        return bool(-EXACT_FLOAT <= low and high <= EXACT_FLOAT)

    def float_relation(self, op: str, x: FloatExpr, y: FloatExpr) -> BoolExpr:
        """`x op y` with Python's meaning, nan included: `not x < y` is not `x >= y`."""
        if op in ("gt", "ge"):
            op, x, y = {"gt": "lt", "ge": "le"}[op], y, x
        if op == "ne":
            return self.negate(self.float_relation("eq", x, y))
        if x.const is not None and y.const is not None:
            return self.boolean(FLOAT_RELATIONS[f"float_{op}"](x.const, y.const))
        if any(each.const is not None and math.isnan(each.const) for each in (x, y)):  # nan compares with no float
            return self.false
        return self.exact_relation(op, x, y) or self._bool(f"float_{op}", (x, y))

    def exact_relation(self, op: str, x: FloatExpr, y: FloatExpr) -> BoolExpr | None:
        """The integer relation that is exactly `x op y` (eq, lt, le), where there is one."""
        if x.op == "float" and y.op == "float" and self.fits_float(x.args[0]) and self.fits_float(y.args[0]):
            return self.relation(op, x.args[0], y.args[0])
        # float(p) < c  <=>  p < c for |c| < 2**53: floats grow with p, and up to 2**53 float(p) is p
        if x.op == "float" and y.const is not None and abs(y.const) < EXACT_FLOAT:
            return self._against_constant(op, x.args[0], y.const, swapped=False)
        if y.op == "float" and x.const is not None and abs(x.const) < EXACT_FLOAT:
            return self._against_constant(op, y.args[0], x.const, swapped=True)
        return None

    def _against_constant(self, op: str, p: IntExpr, c: float, swapped: bool) -> BoolExpr:
        whole = self.integer(math.floor(c))
        if op == "eq":
            return self.relation("eq", p, whole) if c == math.floor(c) else self.false
        if swapped:  # c < p <=> floor(c) < p;  c <= p <=> ceil(c) <= p
            bound = whole if op == "lt" else self.integer(math.ceil(c))
            return self.relation("gt" if op == "lt" else "ge", p, bound)
        bound = self.integer(math.ceil(c)) if op == "lt" else whole  # p < c <=> p < ceil(c);  p <= c <=> p <= floor(c)
        return self.relation(op, p, bound)


def _real(value: Any) -> float:
    if isinstance(value, complex):
        raise ValueError("a negative number to a fractional power is complex; complex numbers are not traced")
    return float(value)
