"""Expressions as Python source, and the order in which a person reads a set of guards.

`python_source` gives text that evaluates to exactly what `evaluation.evaluate` computes: same value, same errors.
`group` merges two bounds on one term into a chain and puts the simple guards first. The text is a function of the
expression and the names alone, the same in every process. Names are taken to be primary expressions
(`L['a'].size()[0]`), and the text also needs the names in `NAMESPACE`.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import sympy
from sympy import Expr, Symbol
from sympy.core.relational import Relational
from sympy.core.sorting import default_sort_key

from shapes.evaluation import ordered_args
from shapes.python_function import PythonFunction, is_integral, python_number
from shapes.sympy_functions import FloatNeg, FloorDiv, Pow, PythonMod, Where

NAMESPACE: dict[str, Any] = {"math": math}

# Python's precedences, low to high (the reference manual, 6.17).
TERNARY, OR, AND, NOT, COMPARE, BITOR, BITXOR, BITAND, SHIFT, SUM, PRODUCT, UNARY, POWER, ATOM = range(14)

BOUND_SIZE = 3  # of a relation between a symbol and a symbol or number

_INFIX = {
    "|": BITOR,
    "^": BITXOR,
    "&": BITAND,
    "<<": SHIFT,
    ">>": SHIFT,
    "+": SUM,
    "*": PRODUCT,
    "/": PRODUCT,
    "//": PRODUCT,
    "%": PRODUCT,
}

_OPERATOR: dict[type, str] = {
    sympy.Eq: "==",
    sympy.Ne: "!=",
    sympy.Lt: "<",
    sympy.Le: "<=",
    sympy.Gt: ">",
    sympy.Ge: ">=",
}
_MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def python_source(expr: Any, names: Mapping[Symbol, str]) -> str:
    """Python text for `expr`; raises KeyError for a symbol without a name, TypeError for what Python cannot say."""
    return _Printer(names).text(expr, TERNARY)


def relation_source(relation: Any, names: Mapping[Symbol, str]) -> str:
    """As `python_source`, for one relation, whose sides stay where they are: `s0 >= 2`, and not `2 <= s0`."""
    if not isinstance(relation, Relational):
        return python_source(relation, names)
    printer = _Printer(names)
    return f"{printer.text(relation.lhs, BITOR)} {_OPERATOR[type(relation)]} {printer.text(relation.rhs, BITOR)}"


# --------------------------------------------------------------------------------------------- the printer


class _Printer:
    """Text of expressions; `text(expr, floor)` puts parentheses round what binds less tightly than `floor`."""

    def __init__(self, names: Mapping[Symbol, str]) -> None:
        self.names = names
        self._rendered: dict[sympy.Basic, tuple[str, int]] = {}

    def text(self, expr: sympy.Basic, floor: int) -> str:
        text, precedence = self.render(expr)
        return text if precedence >= floor else f"({text})"

    def render(self, expr: sympy.Basic) -> tuple[str, int]:
        """The text and how tightly it binds."""
        known = self._rendered.get(expr)
        if known is None:
            known = self._rendered[expr] = self._render(expr)
        return known

    def _render(self, expr: sympy.Basic) -> tuple[str, int]:
        if isinstance(expr, Symbol):
            return self.names[expr], ATOM
        if expr is sympy.true or expr is sympy.false:
            return str(expr is sympy.true), ATOM
        number = python_number(expr)
        if number is not None:
            return _number(number)
        if isinstance(expr, PythonFunction):
            return self.function(expr)
        for kind, method in self._METHODS:
            if isinstance(expr, kind):
                return method(self, expr)
        raise TypeError(f"no Python form for {type(expr).__name__} in {expr}")

    # ---- arithmetic

    def sum(self, expr: Expr) -> tuple[str, int]:
        terms = _readable_terms(self, expr) if is_integral(expr) else list(expr.args)
        parts = [self.text(terms[0], SUM)]
        for term in terms[1:]:
            if _is_negative(term):  # a - t is a + -t, also of floats
                parts.append(f"- {self.text(-term, PRODUCT)}")
            else:
                parts.append(f"+ {self.text(term, PRODUCT)}")
        return " ".join(parts), SUM

    def product(self, expr: Expr) -> tuple[str, int]:
        if not is_integral(expr):
            return "*".join(self.factor(arg) for arg in expr.args), PRODUCT
        coefficient, rest = expr.as_coeff_Mul()
        factors = sorted((self.factor(arg) for arg in sympy.Mul.make_args(rest)), key=natural)
        if coefficient == -1:
            return "-" + "*".join(factors), UNARY if len(factors) == 1 else PRODUCT
        if coefficient != 1:
            factors.insert(0, str(int(coefficient)))
        return "*".join(factors), PRODUCT

    def factor(self, expr: Expr) -> str:
        return self.text(expr, UNARY)

    def power(self, expr: Expr) -> tuple[str, int]:
        base, exponent = expr.args
        return f"{self.text(base, ATOM)}**{self.text(exponent, UNARY)}", POWER

    def absolute(self, expr: Expr) -> tuple[str, int]:
        return f"abs({self.text(expr.args[0], TERNARY)})", ATOM

    def modulo(self, expr: Expr) -> tuple[str, int]:
        return self.infix("%", expr.args)

    def maximum(self, expr: Expr) -> tuple[str, int]:
        return self.call("max", expr.args)

    def minimum(self, expr: Expr) -> tuple[str, int]:
        return self.call("min", expr.args)

    def function(self, expr: PythonFunction) -> tuple[str, int]:
        if isinstance(expr, Where):
            return self.ternary(expr)
        if isinstance(expr, FloatNeg):
            return f"-{self.text(expr.args[0], UNARY)}", UNARY
        if isinstance(expr, Pow):
            return self.power(expr)
        form = expr.form
        return self.infix(form.text, expr.args) if form.infix else self.call(form.text, expr.args)

    def infix(self, operator: str, args: Sequence[Expr]) -> tuple[str, int]:
        """Left-associative: the right side is put in parentheses where it binds as the operator or less."""
        left, right = args
        precedence = _INFIX[operator]
        floor = max(precedence, SUM)  # (x << 1) & y and (x % 8) // 2: redundant parentheses that spare the reader the rules
        if isinstance(left, FloorDiv | PythonMod | sympy.Mod) and precedence == PRODUCT:
            floor = UNARY
        return f"{self.text(left, floor)} {operator} {self.text(right, max(floor, precedence) + 1)}", precedence

    def call(self, name: str, args: Iterable[Expr]) -> tuple[str, int]:
        return f"{name}({', '.join(self.text(arg, TERNARY) for arg in args)})", ATOM

    def ternary(self, expr: sympy.Basic) -> tuple[str, int]:
        condition, a, b = expr.args
        return f"{self.text(a, OR)} if {self.text(condition, OR)} else {self.text(b, TERNARY)}", TERNARY

    # ---- booleans

    def relation(self, expr: Relational) -> tuple[str, int]:
        left, operator, right = readable_sides(expr)
        if operator in ("==", "!=") and isinstance(left, Symbol) and isinstance(right, Symbol):
            left, right = sorted((left, right), key=lambda side: natural(self.text(side, TERNARY)), reverse=True)
        if operator in (">=", ">") and isinstance(left, Symbol) and right.is_Number:
            left, operator, right = right, _MIRRORED[operator], left  # 2 <= x, as in a chain
        return f"{self.text(left, BITOR)} {operator} {self.text(right, BITOR)}", COMPARE

    def conjunction(self, expr: sympy.And) -> tuple[str, int]:
        chain = as_chain(expr)
        if chain is not None:
            low, low_operator, term, high_operator, high = chain
            ends = [self.text(end, BITOR) for end in (low, high)]
            return f"{ends[0]} {low_operator} {self.text(term, BITOR)} {high_operator} {ends[1]}", COMPARE
        return " and ".join(self.text(arg, NOT) for arg in ordered_args(expr)), AND

    def disjunction(self, expr: sympy.Or) -> tuple[str, int]:
        return " or ".join(self.text(arg, AND) for arg in ordered_args(expr)), OR

    def negation(self, expr: sympy.Not) -> tuple[str, int]:
        return f"not {self.text(expr.args[0], NOT)}", NOT

    _METHODS = (
        (sympy.Add, sum),
        (sympy.Mul, product),
        (sympy.Pow, power),
        (Relational, relation),
        (sympy.And, conjunction),
        (sympy.Or, disjunction),
        (sympy.Not, negation),
        (sympy.ITE, ternary),
        (sympy.Mod, modulo),
        (sympy.Abs, absolute),
        (sympy.Max, maximum),
        (sympy.Min, minimum),
    )


def _number(value: float) -> tuple[str, int]:
    text = repr(value)
    if text.strip("-").isalpha():  # inf, -inf, nan
        return f"float('{text}')", ATOM
    return text, UNARY if text.startswith("-") else ATOM


def _is_negative(term: Expr) -> bool:
    """The term's constant factor is negative."""
    coefficient = term.as_coeff_Mul()[0]
    return bool(coefficient.is_negative)


def _degree(term: Expr) -> int:
    factors = [factor for factor in sympy.Mul.make_args(term) if not factor.is_Number]
    return sum(int(f.exp) if isinstance(f, sympy.Pow) and f.exp.is_Integer else 1 for f in factors)


def _readable_terms(printer: _Printer, expr: Expr) -> list[Expr]:
    """Positive terms first, then of high degree, then by text; the constant last, unless that starts with a minus."""
    starts_positive = any(not term.is_Number and not _is_negative(term) for term in expr.args)

    def key(term: Expr) -> tuple:
        if term.is_Number:
            return (2 if starts_positive else 0,)
        return int(_is_negative(term)), -_degree(term), natural(printer.text(term, TERNARY))

    return sorted(expr.args, key=key)


def natural(text: str) -> list[Any]:
    """A sort key under which s2 comes before s10."""
    return [int(part) if index % 2 else part for index, part in enumerate(re.split(r"(\d+)", text))]


# ---------------------------------------------------------------------------------------- relations' sides


def readable_sides(relation: Relational) -> tuple[Expr, str, Expr]:
    """The two sides as a person writes them, with the operator between.

    `2*x - 16 >= 0` becomes `2*x >= 16` and `16 - x >= 0` becomes `x <= 16`. Every term keeps its place in the
    relation or moves to the other side with its sign turned; none is cancelled, so what raises still raises.
    """
    left, right = relation.args
    operator = _OPERATOR[type(relation)]
    if left.is_Number:
        left, right, operator = right, left, _MIRRORED[operator]
    if not (right.is_Integer and is_integral(left)):
        return left, operator, right
    return _on_positive_sides(left, operator, int(right))


def _on_positive_sides(left: Expr, operator: str, bound: int) -> tuple[Expr, str, Expr]:
    """The relation `left operator bound` with each term on the side where it is positive. A constant stands on the right."""
    positive, negative = [], []
    for term in sympy.Add.make_args(left):
        if term.is_Integer:
            bound -= int(term)
        elif _is_negative(term):
            negative.append(-term)
        else:
            positive.append(term)
    if not negative:
        return sympy.Add(*positive), operator, sympy.Integer(bound)
    if not positive:
        return sympy.Add(*negative), _MIRRORED[operator], sympy.Integer(-bound)
    if bound == 1 and operator == ">=":  # x - y >= 1 -> x > y, integers
        bound, operator = 0, ">"
    elif bound == -1 and operator == "<=":  # x - y <= -1 -> x < y, integers
        bound, operator = 0, "<"
    if bound < 0:
        return sympy.Add(*positive, -bound), operator, sympy.Add(*negative)
    return sympy.Add(*positive), operator, sympy.Add(*negative, bound)


class Chain(NamedTuple):
    """low <= term <= high, either comparison possibly strict."""

    low: Expr
    low_operator: str
    term: Expr
    high_operator: str
    high: Expr


def as_chain(expr: sympy.Basic) -> Chain | None:
    """The chain that a conjunction of a lower and an upper bound on one term is; None for anything else."""
    if not (isinstance(expr, sympy.And) and len(expr.args) == 2):
        return None
    bounds = [_bound(arg) for arg in expr.args]
    lower = next((b for b in bounds if b is not None and b[1] in (">", ">=")), None)
    upper = next((b for b in bounds if b is not None and b[1] in ("<", "<=")), None)
    if lower is None or upper is None or lower[0] != upper[0]:
        return None
    return Chain(lower[2], _MIRRORED[lower[1]], lower[0], upper[1], upper[2])


def _bound(expr: sympy.Basic) -> tuple[Expr, str, Expr] | None:
    """The sides of a relation with a constant on the right."""
    if not isinstance(expr, Relational):
        return None
    left, operator, right = readable_sides(expr)
    return (left, operator, right) if right.is_Number else None


# ----------------------------------------------------------------------------------------------- grouping


class Grouped(NamedTuple):
    """One line of the emitted guards, and the indices of the guards that it combines."""

    expr: sympy.Basic
    members: tuple[int, ...]


def group(guards: Sequence[sympy.Basic]) -> list[Grouped]:
    """The guards in reading order: conjunctions taken apart, a lower and an upper bound on one term merged.

    Simple guards on few symbols come first. Nothing is dropped but the constant True and repeated conjuncts.
    """
    members: dict[sympy.Basic, list[int]] = {}
    for index, guard in enumerate(guards):
        for conjunct in sympy.And.make_args(sympy.sympify(guard)):
            if conjunct is not sympy.true:
                members.setdefault(conjunct, []).append(index)
    lines = _merge_bounds({conjunct: tuple(dict.fromkeys(at)) for conjunct, at in members.items()})
    return sorted(lines, key=lambda line: reading_order(line.expr))


def _merge_bounds(members: dict[sympy.Basic, tuple[int, ...]]) -> list[Grouped]:
    lower: dict[Expr, sympy.Basic] = {}
    merged: dict[sympy.Basic, sympy.Basic] = {}
    bounds = {conjunct: _bound(conjunct) for conjunct in members}
    for conjunct, bound in bounds.items():
        if bound is not None and bound[1] in (">", ">="):
            lower.setdefault(bound[0], conjunct)
    for conjunct, bound in bounds.items():
        if bound is not None and bound[1] in ("<", "<=") and bound[0] in lower:
            merged[conjunct] = lower.pop(bound[0])
    partners = set(merged.values())
    lines = []
    for conjunct, at in members.items():
        if conjunct in merged:
            both = sympy.And(merged[conjunct], conjunct)
            lines.append(Grouped(both, tuple(sorted({*at, *members[merged[conjunct]]}))))
        elif conjunct not in partners:
            lines.append(Grouped(conjunct, at))
    return lines


def reading_order(expr: sympy.Basic) -> tuple:
    """A sort key: fewer symbols; chains, bounds on symbols, the rest; the symbols' names; the length."""
    symbols = sorted(natural(symbol.name) for symbol in expr.free_symbols)
    size = sum(1 for _ in sympy.preorder_traversal(expr))
    kind = 0 if as_chain(expr) is not None else 1 if size <= BOUND_SIZE else 2
    return len(symbols), kind, symbols, size, default_sort_key(expr)
