"""Converts expressions to SymPy and back. In SymPy they use the functions of `shapes.sympy_functions`, which SymPy does not
simplify.

`SYMPY_FUNCTIONS` maps a SymPy class to the function that builds its expression. A front end adds the classes that it has itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import sympy

from shapes import sympy_functions as f
from shapes.floats import FloatExpr
from shapes.math_functions import MATH_FUNCTIONS
from shapes.operations import FLOAT, INTEGER
from shapes.polynomial import IntExpr, Terms
from shapes.printing import python_source
from shapes.relations import BoolExpr

if TYPE_CHECKING:
    from shapes.algebra import Algebra


class NotAnExpression(TypeError):
    """Something that is no expression over the symbols of this env."""


# ------------------------------------------------------------------------------------------------- to SymPy

_RELATIONS: dict[str, Callable[..., Any]] = {
    "eq": sympy.Eq,
    "ne": sympy.Ne,
    "ge": sympy.Ge,
    "gt": sympy.Gt,
    "le": sympy.Le,
    "lt": sympy.Lt,
}


def to_sympy(expr: Any) -> Any:
    """The SymPy form of an expression."""
    if expr.sympy_form is None:
        if isinstance(expr, IntExpr):
            expr.sympy_form = _polynomial(expr)
        elif isinstance(expr, FloatExpr):
            expr.sympy_form = _float(expr)
        else:
            expr.sympy_form = _boolean(expr)
    return expr.sympy_form


def _polynomial(p: IntExpr) -> Any:
    if p.const is not None:
        return sympy.Integer(p.const)
    atom = p.single_atom()
    if atom is not None:
        return atom.symbol.sympy if atom.symbol is not None else INTEGER[atom.kind].sympy(*map(to_sympy, atom.args))
    return _sum(p, p.terms)


def _sum(p: IntExpr, terms: Terms) -> Any:
    atoms = p.algebra.atoms
    return sympy.Add(*(sympy.Mul(c, *(to_sympy(atoms[index].expr) for index in m)) for m, c in terms))


def _float(x: FloatExpr) -> Any:
    if x.const is not None:
        return f.float_constant(x.const)
    if x.symbol is not None:
        return x.symbol.sympy
    return FLOAT[x.op].sympy(*map(to_sympy, x.args))


def _boolean(b: BoolExpr) -> Any:
    if b.const is not None:
        return sympy.true if b.const else sympy.false
    if b.kind in ("eq", "ne", "ge"):
        return _two_sided(b.kind, b.args[0])
    args = map(to_sympy, b.args)
    if b.kind == "and":
        return sympy.And(*args)
    if b.kind == "or":
        return sympy.Or(*args)
    # Of floats SymPy may decide nothing: x == x is False for nan, and `not x < y` is not `x >= y`.
    if b.kind == "not":
        return sympy.Not(*args, evaluate=False)
    return _RELATIONS[b.kind.removeprefix("float_")](*args, evaluate=False)


def _two_sided(kind: str, p: IntExpr) -> Any:
    """p == 0, p != 0 or p >= 0, with each term on the side where it is positive, and a constant without terms on the right."""
    positive = _sum(p, tuple((m, c) for m, c in p.terms if m and c > 0))
    negative = _sum(p, tuple((m, -c) for m, c in p.terms if m and c < 0))
    constant = p.constant_term()
    if not negative:  # s0 - 5 >= 0 is s0 >= 5
        return _RELATIONS[kind](positive, -constant)
    if not positive:  # 5 - s0 >= 0 is s0 <= 5
        return {"eq": sympy.Eq, "ne": sympy.Ne, "ge": sympy.Le}[kind](negative, constant)
    if kind == "ge" and constant == -1:  # s0 - s1 - 1 >= 0 is s0 > s1
        return sympy.Gt(positive, negative)
    if constant >= 0:
        return _RELATIONS[kind](positive + constant, negative)
    return _RELATIONS[kind](positive, negative - constant)


def as_asked(b: BoolExpr) -> Any:
    """The SymPy form of a relation as the program wrote it, `2*s0 >= 16` for `s0 - 8 >= 0`; of other conditions the usual
    form."""
    if b.asked is None:
        return to_sympy(b)
    op, p, q = b.asked
    return _RELATIONS[op](to_sympy(p), to_sympy(q), evaluate=False)


def show(expr: Any) -> str:
    """An expression as Python text over the symbols' names, `(s0 + 1) // 2`."""
    form = to_sympy(expr)
    return python_source(form, {symbol: symbol.name for symbol in form.free_symbols})


# ----------------------------------------------------------------------------------------------- from SymPy

Builder = Callable[["Algebra", Any], Any]


def _integer_function(kind: str) -> Builder:
    def build(algebra: Algebra, expr: Any) -> Any:
        args = [algebra.from_sympy(arg) for arg in expr.args]
        if any(isinstance(arg, FloatExpr) for arg in args):
            return _float_function(kind)(algebra, expr)
        result = args[0]
        for arg in args[1:]:
            result = algebra.apply(kind, result, arg)
        return result

    return build


def _float_function(op: str) -> Builder:
    def build(algebra: Algebra, expr: Any) -> Any:
        args = [as_float(algebra, algebra.from_sympy(arg)) for arg in expr.args]
        result = args[0] if len(args) > 1 else algebra.float_operation(op, *args)
        for arg in args[1:]:
            result = algebra.float_operation(op, result, arg)
        return result

    return build


def _absolute(algebra: Algebra, expr: Any) -> Any:
    value = algebra.from_sympy(expr.args[0])
    return abs(value) if isinstance(value, IntExpr) else algebra.float_operation("abs", value)


def _rounding(kind: str) -> Builder:
    def build(algebra: Algebra, expr: Any) -> Any:
        arg = algebra.from_sympy(expr.args[0])
        return arg if isinstance(arg, IntExpr) else algebra.rounded(kind, arg)

    return build


def as_float(algebra: Algebra, expr: Any) -> FloatExpr:
    return algebra.to_float(expr) if isinstance(expr, IntExpr) else expr


def _true_division(algebra: Algebra, expr: Any) -> Any:
    a, b = map(algebra.from_sympy, expr.args)
    if isinstance(a, IntExpr) and isinstance(b, IntExpr):
        return algebra.float_operation("int_truediv", a, b)
    return algebra.float_operation("truediv", as_float(algebra, a), as_float(algebra, b))


def _pow(algebra: Algebra, expr: Any) -> Any:
    a, b = map(algebra.from_sympy, expr.args)
    if isinstance(a, IntExpr) and isinstance(b, IntExpr) and algebra.range(b)[0] >= 0:
        return algebra.power(a, b)
    return algebra.float_operation("pow", as_float(algebra, a), as_float(algebra, b))


def _round_digits(algebra: Algebra, expr: Any) -> Any:
    value, digits = map(algebra.from_sympy, expr.args)
    return algebra.float_operation("round_digits", as_float(algebra, value), digits)


def _combine(algebra: Algebra, expr: Any, integers: Callable[..., Any], floats: str) -> Any:
    args = [algebra.from_sympy(arg) for arg in expr.args]
    result = args[0]
    for arg in args[1:]:
        if isinstance(result, IntExpr) and isinstance(arg, IntExpr):
            result = integers(result, arg)
        else:
            result = algebra.float_operation(floats, as_float(algebra, result), as_float(algebra, arg))
    return result


def _relational(op: str) -> Builder:
    def build(algebra: Algebra, expr: Any) -> Any:
        a, b = map(algebra.from_sympy, expr.args)
        if isinstance(a, IntExpr) and isinstance(b, IntExpr):
            return algebra.relation(op, a, b)
        if isinstance(a, BoolExpr) and isinstance(b, BoolExpr):
            same = (a & b) | (~a & ~b)
            return same if op == "eq" else ~same
        return algebra.float_relation(op, as_float(algebra, a), as_float(algebra, b))

    return build


SYMPY_FUNCTIONS: dict[type, Builder] = {
    sympy.Add: lambda algebra, expr: _combine(algebra, expr, algebra.add, "add"),
    sympy.Mul: lambda algebra, expr: _combine(algebra, expr, algebra.mul, "mul"),
    sympy.Pow: _pow,
    f.Pow: _pow,
    f.FloorDiv: _integer_function("floordiv"),
    f.PythonMod: _integer_function("mod"),
    sympy.Mod: _integer_function("mod"),
    f.Max: _integer_function("max"),
    sympy.Max: _integer_function("max"),
    f.Min: _integer_function("min"),
    sympy.Min: _integer_function("min"),
    f.BitAnd: _integer_function("bitand"),
    f.BitOr: _integer_function("bitor"),
    f.BitXor: _integer_function("bitxor"),
    f.LShift: _integer_function("lshift"),
    f.RShift: _integer_function("rshift"),
    f.FloorToInt: _rounding("floor"),
    sympy.floor: _rounding("floor"),
    f.CeilToInt: _rounding("ceil"),
    sympy.ceiling: _rounding("ceil"),
    f.TruncToInt: _rounding("trunc"),
    f.RoundToInt: _rounding("round"),
    f.ToFloat: lambda algebra, expr: as_float(algebra, algebra.from_sympy(expr.args[0])),
    f.TrueDiv: _true_division,
    f.FloatAdd: _float_function("add"),
    f.FloatMul: _float_function("mul"),
    f.FloatNeg: _float_function("neg"),
    f.FloatAbs: _float_function("abs"),
    sympy.Abs: _absolute,
    f.FloatFloorDiv: _float_function("floordiv"),
    f.FloatMod: _float_function("mod"),
    f.RoundDecimal: _round_digits,
    f.Where: lambda algebra, expr: algebra.where(*map(algebra.from_sympy, expr.args)),
    sympy.And: lambda algebra, expr: algebra.all_of(map(algebra.from_sympy, expr.args)),
    sympy.Or: lambda algebra, expr: algebra.any_of(map(algebra.from_sympy, expr.args)),
    sympy.Not: lambda algebra, expr: algebra.negate(algebra.from_sympy(expr.args[0])),
    sympy.Eq: _relational("eq"),
    sympy.Ne: _relational("ne"),
    sympy.Ge: _relational("ge"),
    sympy.Gt: _relational("gt"),
    sympy.Le: _relational("le"),
    sympy.Lt: _relational("lt"),
    **{cls: _float_function(name) for name, cls in MATH_FUNCTIONS.items()},
}


def from_sympy(algebra: Algebra, expr: Any) -> Any:
    """The expression of a SymPy expression; NotAnExpression for anything that is not one of this algebra."""
    if isinstance(expr, (bool, int, float)):
        return algebra.constant(expr)
    if not isinstance(expr, sympy.Basic):
        raise NotAnExpression(f"expected a SymPy expression, got {type(expr).__name__} {expr!r}")
    if expr in (sympy.true, sympy.false):
        return algebra.boolean(expr is sympy.true)
    if isinstance(expr, sympy.Symbol):
        raise NotAnExpression(f"{expr} is no symbol of this ShapeEnv; symbols come from create_size and the like")
    number = f.python_number(expr)
    if number is not None:
        return algebra.constant(number)
    build = SYMPY_FUNCTIONS.get(type(expr))
    if build is None:
        raise NotAnExpression(f"cannot use {type(expr).__name__} in a shape expression: {expr}")
    return build(algebra, expr)


__all__ = ["SYMPY_FUNCTIONS", "NotAnExpression", "as_asked", "from_sympy", "show", "to_sympy"]
