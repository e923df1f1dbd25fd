"""`Algebra` makes the expressions of one env: polynomials, relations and float expressions.

Integer functions are simplified by the laws in `simplify`, with the ranges that `static.Facts` knows, and memoised.
"""

from __future__ import annotations

from typing import Any

from shapes import conversion, simplify
from shapes.floats import FloatExpr, Floats
from shapes.polynomial import IntExpr
from shapes.ranges import Range
from shapes.relations import BoolExpr
from shapes.static import Facts
from shapes.symbols import Symbol

Expr = IntExpr | BoolExpr | FloatExpr


class Algebra(Floats):
    """Makes and combines expressions. Not to be shared between threads."""

    def __init__(self) -> None:
        super().__init__()
        self._functions: dict[tuple[str, IntExpr, IntExpr], IntExpr] = {}
        self._from_sympy: dict[Any, Expr] = {}
        self.facts = Facts(self)

    def symbol(self, symbol: Symbol) -> IntExpr | FloatExpr:
        """The expression that is this symbol."""
        expr = self.float_symbol(symbol) if symbol.kind.is_float else self.new_symbol_atom(symbol).expr
        symbol.expr = expr
        self._from_sympy[symbol.sympy] = expr
        return expr

    # -- integer functions ---------------------------------------------------------------------------------------

    def apply(self, kind: str, p: IntExpr, q: IntExpr) -> IntExpr:
        key = (kind, p, q)
        result = self._functions.get(key)
        if result is None:
            result = self._functions[key] = simplify.simplify(self, kind, p, q)
        return result

    def floordiv(self, p: IntExpr, q: IntExpr) -> IntExpr:
        return self.apply("floordiv", p, q)

    def mod(self, p: IntExpr, q: IntExpr) -> IntExpr:
        return self.apply("mod", p, q)

    def maximum(self, p: IntExpr, q: IntExpr) -> IntExpr:
        return self.apply("max", p, q)

    def minimum(self, p: IntExpr, q: IntExpr) -> IntExpr:
        return self.apply("min", p, q)

    def power(self, p: IntExpr, q: IntExpr) -> IntExpr:
        return self.apply("pow", p, q)

    def bitwise(self, kind: str, p: IntExpr, q: IntExpr) -> IntExpr:
        """kind: bitand, bitor, bitxor, lshift or rshift"""
        return self.apply(kind, p, q)

    def where(self, condition: BoolExpr, p: Any, q: Any) -> Any:
        """`p if condition else q`, for two integers, two floats or two booleans."""
        if condition.const is not None:
            return p if condition.const else q
        if p is q:
            return p
        if isinstance(p, BoolExpr):
            return (condition & p) | (~condition & q)
        if isinstance(p, FloatExpr):
            return self.float_operation("where", condition, p, q)
        return self.function("where", condition, p, q)

    # -- ranges --------------------------------------------------------------------------------------------------

    def range(self, p: IntExpr) -> Range:
        return self.facts.range(p)

    def function_range(self, kind: str, *args: Any) -> Range:
        return self.facts.function_range(kind, args)

    def may_be_zero(self, p: IntExpr) -> bool:
        return self.facts.decide(self.equals_zero(p)) is not False

    def rebuild(self, kind: str, args: tuple[Any, ...]) -> IntExpr:
        """The expression `kind(*args)`, simplified."""
        if kind in simplify.LAWS:
            return self.apply(kind, *args)
        if kind == "where":
            chosen: IntExpr = self.where(*args)
            return chosen
        if kind == "product":
            return self.mul(*args)
        return self.rounded(kind, *args)

    # -- SymPy ---------------------------------------------------------------------------------------------------

    def to_sympy(self, expr: Expr) -> Any:
        return conversion.to_sympy(expr)

    def from_sympy(self, expr: Any) -> Any:
        """The expression of a SymPy expression over symbols of this algebra."""
        found = self._from_sympy.get(expr)
        if found is None:
            found = self._from_sympy[expr] = conversion.from_sympy(self, expr)
        return found

    def show(self, expr: Expr) -> str:
        """The expression as Python text."""
        return conversion.show(expr)

    def constant(self, value: bool | int | float) -> Expr:
        if isinstance(value, bool):
            return self.boolean(value)
        return self.integer(value) if isinstance(value, int) else self.float_constant(value)
