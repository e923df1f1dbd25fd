"""Proves p >= 0 where p contains a function and its own argument, such as s0 - s0 // 2.

For interval arithmetic these are two independent unknowns. Replacing the function by a bound in its arguments leaves one:
x - n + 1 <= n * (x // n) <= x for n > 0, min(x, y) <= x, max(x, y) >= x.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from shapes.polynomial import Atom, IntExpr, Monomial

if TYPE_CHECKING:
    from shapes.static import Facts

DEPTH = 2  # functions replaced at once
BREADTH = 4  # functions tried at each step


def nonnegative(facts: Facts, p: IntExpr, depth: int = DEPTH) -> bool:
    """Whether p >= 0 follows from the ranges after replacing up to `depth` functions."""
    if facts.range(p)[0] >= 0:
        return True
    return depth > 0 and any(nonnegative(facts, smaller, depth - 1) for smaller in _relaxed(facts, p))


def has_functions(p: IntExpr) -> bool:
    return any(atom.kind in _BOUNDS for atom in p.atoms())


def _relaxed(facts: Facts, p: IntExpr) -> Iterator[IntExpr]:
    """Polynomials q with k*p >= q for some k > 0."""
    tried = 0
    for monomial, coefficient in p.terms:
        for index in dict.fromkeys(monomial):
            atom = facts.algebra.atoms[index]
            if atom.kind not in _BOUNDS or tried >= BREADTH:
                continue
            others = list(monomial)
            others.remove(index)
            if index in others or any(facts.atom_range(other)[0] < 0 for other in others):
                continue
            tried += 1
            for scale, bound in _BOUNDS[atom.kind](atom, coefficient > 0):
                yield _replace(p, monomial, tuple(others), coefficient, scale, bound)


def _replace(p: IntExpr, gone: Monomial, others: Monomial, coefficient: int, scale: int, bound: IntExpr) -> IntExpr:
    """scale * p with `scale * function` replaced by its bound in one term."""
    algebra = p.algebra
    rest = algebra.from_terms({m: scale * c for m, c in p.terms if m != gone})
    return algebra.add(rest, algebra.mul(algebra.from_terms({others: coefficient}), bound))


def _quotient(atom: Atom, below: bool) -> Iterator[tuple[int, IntExpr]]:
    """(n, b) with n * (x // n) >= b if `below`, else <= b."""
    x, divisor = atom.args
    n = divisor.const
    if n is not None and n > 0:
        yield n, x - (n - 1) if below else x


def _minimum(atom: Atom, below: bool) -> Iterator[tuple[int, IntExpr]]:
    if not below:
        yield from ((1, arg) for arg in atom.args)


def _maximum(atom: Atom, below: bool) -> Iterator[tuple[int, IntExpr]]:
    if below:
        yield from ((1, arg) for arg in atom.args)


_BOUNDS = {"floordiv": _quotient, "min": _minimum, "max": _maximum}
