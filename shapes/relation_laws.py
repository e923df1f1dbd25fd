"""Laws that turn a relation `p == 0` or `p >= 0` into a simpler one.

Each law is one function in a table, with the law in words. It holds for all integers within the ranges that the env knows. The
simpler relation replaces the given one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from shapes.polynomial import IntExpr, Monomial, monomial_quotient
from shapes.simplify import Law, common_monomial

if TYPE_CHECKING:
    from shapes.algebra import Algebra

Rewrite = Callable[["Algebra", IntExpr], "IntExpr | None"]

RELATION_LAWS: dict[str, list[Law]] = {"eq": [], "ge": []}


def relation_law(kind: str, statement: str) -> Callable[[Rewrite], Rewrite]:
    """Adds a law for `p == 0` ("eq") or `p >= 0` ("ge")."""

    def register(rewrite: Rewrite) -> Rewrite:
        RELATION_LAWS[kind].append(Law(statement, rewrite))
        return rewrite

    return register


def simpler(algebra: Algebra, kind: str, p: IntExpr) -> IntExpr:
    """q with (q == 0) = (p == 0), or (q >= 0) = (p >= 0)."""
    for law in RELATION_LAWS[kind]:
        result = law.rewrite(algebra, p)
        if result is not None:
            return result
    return p


@relation_law("ge", "x // n + c >= 0 is x + c*n >= 0, n > 0")
def _quotient_from_below(algebra: Algebra, p: IntExpr) -> IntExpr | None:
    found = _lone_quotient(algebra, p, 1)
    if found is None:
        return None
    x, n = found
    return x + p.constant_term() * n


@relation_law("ge", "c - x // n >= 0 is c*n + n - 1 - x >= 0, n > 0")
def _quotient_from_above(algebra: Algebra, p: IntExpr) -> IntExpr | None:
    found = _lone_quotient(algebra, p, -1)
    if found is None:
        return None
    x, n = found
    return p.constant_term() * n + (n - 1) - x


def _lone_quotient(algebra: Algebra, p: IntExpr, sign: int) -> tuple[IntExpr, int] | None:
    """(x, n) of `sign * (x // n) + c`, n > 0."""
    terms = [(m, c) for m, c in p.terms if m]
    if len(terms) != 1 or len(terms[0][0]) != 1 or terms[0][1] != sign:
        return None
    atom = algebra.atoms[terms[0][0][0]]
    n = atom.args[1].const if atom.kind == "floordiv" else None
    return (atom.args[0], n) if n is not None and n > 0 else None


@relation_law("ge", "x*y + c >= 0 with x > 0 is y >= 0 if 0 <= c < x, and y - 1 >= 0 if -x <= c < 0")
def _divide_by_positive(algebra: Algebra, p: IntExpr) -> IntExpr | None:
    positive = tuple(index for index in _common(algebra, p) if algebra.facts.atom_range(index)[0] > 0)
    if not positive:
        return None
    low = algebra.range(algebra.from_terms({positive: 1}))[0]
    constant = p.constant_term()
    if not -low <= constant < low:
        return None
    y = _divided(algebra, p, positive)
    return y if constant >= 0 else y - 1


@relation_law("eq", "x*y == 0 is y == 0 where x is not 0")
def _divide_by_nonzero(algebra: Algebra, p: IntExpr) -> IntExpr | None:
    if p.constant_term():
        return None
    common = tuple(index for index in _common(algebra, p) if not _may_be_zero(algebra, index))
    return _divided(algebra, p, common) if common else None


def _may_be_zero(algebra: Algebra, index: int) -> bool:
    low, high = algebra.facts.atom_range(index)
    return bool(low <= 0 <= high)


def _common(algebra: Algebra, p: IntExpr) -> Monomial:
    return common_monomial([m for m, _ in p.terms if m])


def _divided(algebra: Algebra, p: IntExpr, common: Monomial) -> IntExpr:
    """The terms of p that are not constant, divided by a monomial that divides them all."""
    return algebra.from_terms({monomial_quotient(m, common): c for m, c in p.terms if m})  # type: ignore[misc]  # divides them all


@relation_law("eq", "n * (x // n) == x is x % n == 0")
def _exact_division(algebra: Algebra, p: IntExpr) -> IntExpr | None:
    for monomial, coefficient in p.terms:
        atom = algebra.atoms[monomial[0]] if len(monomial) == 1 else None
        if atom is None or atom.kind != "floordiv":
            continue
        x, n = atom.args
        if n.const is None or abs(coefficient) != abs(n.const):
            continue
        multiple = n * atom.expr - x
        if p is multiple or p is -multiple:
            return algebra.mod(x, n)
    return None
