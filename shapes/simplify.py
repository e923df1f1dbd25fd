"""Laws of the integer functions: floor division, modulo, min, max, power and bit operations.

Each law is one small function in a table, with the law in words; the first that applies gives the result. Every law
holds for all integers for which Python computes a result at all (no law divides by zero), under the ranges that the
env knows. What no law simplifies becomes an atom.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from shapes.polynomial import MAX_TERMS, IntExpr, Monomial, Terms, degree, monomial_quotient

if TYPE_CHECKING:
    from shapes.algebra import Algebra

Rewrite = Callable[["Algebra", IntExpr, IntExpr], "IntExpr | None"]


@dataclasses.dataclass(frozen=True)
class Law:
    statement: str
    rewrite: Callable[..., IntExpr | None]


LAWS: dict[str, list[Law]] = {}


def law(kind: str, statement: str) -> Callable[[Rewrite], Rewrite]:
    """Adds a law for `kind`; laws are tried in the order in which they stand."""

    def register(rewrite: Rewrite) -> Rewrite:
        LAWS.setdefault(kind, []).append(Law(statement, rewrite))
        return rewrite

    return register


def simplify(algebra: Algebra, kind: str, p: IntExpr, q: IntExpr) -> IntExpr:
    """The expression `kind(p, q)`."""
    for each in LAWS[kind]:
        result = each.rewrite(algebra, p, q)
        if result is not None:
            return result
    return algebra.function(kind, p, q)


# ------------------------------------------------------------------------------------- division and modulo


@law("floordiv", "x // 0 raises")
@law("mod", "x % 0 raises")
def _by_zero(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    if q.const == 0:
        raise ZeroDivisionError("integer division or modulo by zero")
    return None


@law("floordiv", "x // -y = -x // y for a term -y")
def _divide_by_negative(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    return algebra.floordiv(algebra.neg(p), algebra.neg(q)) if negative_term(q) else None


@law("mod", "x % -y = -(-x % y) for a term -y")
def _mod_by_negative(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    return algebra.neg(algebra.mod(algebra.neg(p), algebra.neg(q))) if negative_term(q) else None


@law("floordiv", "x*y // y = x")
def _divide_exactly(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    return algebra.divide_exactly(p, q)


@law("mod", "x*y % y = 0")
def _mod_exactly(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    return algebra.zero if algebra.divide_exactly(p, q) is not None else None


@law("floordiv", "(x*y + z) // y = x + z // y")
def _divide_out(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    if len(q.terms) != 1:
        return None
    whole, rest = algebra.split(p, q)
    return algebra.add(whole, algebra.floordiv(rest, q)) if whole.terms else None


@law("mod", "(x*y + z) % y = z % y")
def _mod_out(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    if len(q.terms) != 1:
        return None
    whole, rest = algebra.split(p, q)
    return algebra.mod(rest, q) if whole.terms else None


@law("floordiv", "x // y = k where k*y <= x < (k + 1)*y by the ranges, as 0 for 0 <= x < y")
def _divide_by_range(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    k = quotient_by_range(algebra, p, q)
    return None if k is None else algebra.integer(k)


@law("mod", "x % y = x - k*y where k*y <= x < (k + 1)*y by the ranges")
def _mod_by_range(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    k = quotient_by_range(algebra, p, q)
    return None if k is None else algebra.sub(p, algebra.scale(q, k))


@law("floordiv", "g*x // (g*y) = x // y")
def _divide_by_common(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    common = common_factor(algebra, p, q)
    return algebra.floordiv(without(algebra, p, common), without(algebra, q, common)) if common else None


@law("mod", "g*x % (g*y) = g * (x % y)")
def _mod_by_common(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    common = common_factor(algebra, p, q)
    if not common:
        return None
    rest = algebra.mod(without(algebra, p, common), without(algebra, q, common))
    return algebra.mul(algebra.from_terms(dict(common)), rest)


@law("floordiv", "(x // m) // n = x // (m*n) for n > 0")
def _divide_twice(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    atom = p.single_atom()
    if atom is None or atom.kind != "floordiv" or algebra.range(q)[0] <= 0:
        return None
    return algebra.floordiv(atom.args[0], algebra.mul(atom.args[1], q))


@law("mod", "(x + c * (z % y)) % y = (x + c*z) % y")
def _mod_of_mod(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    for monomial, coefficient in p.terms:
        atom = algebra.atoms[monomial[0]] if len(monomial) == 1 else None
        if atom is not None and atom.kind == "mod" and atom.args[1] is q:
            difference = algebra.sub(atom.args[0], atom.expr)
            return algebra.mod(algebra.add(p, algebra.scale(difference, coefficient)), q)
    return None


def negative_term(q: IntExpr) -> bool:
    return len(q.terms) == 1 and q.terms[0][1] < 0


def quotient_by_range(algebra: Algebra, p: IntExpr, q: IntExpr) -> int | None:
    """The one value that p // q can have, if the ranges leave only one."""
    low, high = algebra.function_range("floordiv", p, q)
    if low == high:
        return int(low)
    if algebra.range(p)[0] >= 0 and algebra.range(algebra.sub(q, p))[0] > 0:  # 0 <= p < q
        return 0
    return None


def common_factor(algebra: Algebra, p: IntExpr, q: IntExpr) -> Terms | None:
    """The one term, other than 1, that divides every term of p and of q and is not zero."""
    terms = p.terms + q.terms
    number = math.gcd(*(coefficient for _, coefficient in terms))
    monomial = common_monomial([m for m, _ in terms])
    monomial = tuple(index for index in monomial if not algebra.may_be_zero(algebra.atoms[index].expr))
    return ((monomial, number),) if monomial or number > 1 else None


def common_monomial(monomials: Sequence[Monomial]) -> Monomial:
    """The atoms, with their powers, that all monomials have."""
    common = list(monomials[0])
    for monomial in monomials[1:]:
        left = Counter(monomial)
        kept = []
        for index in common:
            if left[index]:
                left[index] -= 1
                kept.append(index)
        common = kept
    return tuple(common)


def without(algebra: Algebra, p: IntExpr, factor: Terms) -> IntExpr:
    ((monomial, number),) = factor
    return algebra.from_terms({monomial_quotient(m, monomial): c // number for m, c in p.terms})  # type: ignore[misc]  # divides them all


# ------------------------------------------------------------------------------------------ maximum, minimum


@law("max", "max(x, y) = x where x >= y by the ranges")
def _max_by_range(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    low, high = algebra.range(algebra.sub(p, q))
    return p if low >= 0 else q if high <= 0 else None


@law("min", "min(x, y) = x where x <= y by the ranges")
def _min_by_range(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    low, high = algebra.range(algebra.sub(p, q))
    return q if low >= 0 else p if high <= 0 else None


@law("max", "max(max(x, y), x) = max(x, y); max(min(x, y), x) = x")
def _max_absorbs(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    return _absorb(p, q, "max", "min")


@law("min", "min(min(x, y), x) = min(x, y); min(max(x, y), x) = x")
def _min_absorbs(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    return _absorb(p, q, "min", "max")


def _absorb(p: IntExpr, q: IntExpr, same: str, dual: str) -> IntExpr | None:
    for nested, plain in ((p, q), (q, p)):
        atom = nested.single_atom()
        if atom is not None and plain in atom.args:
            if atom.kind == same:
                return nested
            if atom.kind == dual:
                return plain
    return None


@law("max", "max(x, y) = max(y, x)")
def _max_in_order(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    return algebra.maximum(q, p) if q.terms < p.terms else None


@law("min", "min(x, y) = min(y, x)")
def _min_in_order(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    return algebra.minimum(q, p) if q.terms < p.terms else None


# -------------------------------------------------------------------------------------------- powers and bits


@law("pow", "x ** n = x * ... * x for a constant n >= 0")
def _constant_power(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    if q.const is None:
        return None
    if q.const < 0:
        raise ValueError("a negative power of an integer is a float")
    if p.const is not None:
        return algebra.integer(p.const**q.const)
    if q.const > 8 or math.comb(len(p.terms) + q.const - 1, q.const) > MAX_TERMS or degree(p) * q.const > 16:
        return None
    result = algebra.one
    for _ in range(q.const):
        result = algebra.mul(result, p)
    return result


@law("bitand", "x & 0 = 0, x & x = x, x & -1 = x, in order")
def _and(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    return _bits(algebra, "bitand", p, q, lambda a, b: a & b, {0: 0, -1: None}, p)


@law("bitand", "x & (2**n - 1) = x % 2**n")
def _mask(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    mask = q.const if q.const is not None else p.const
    if mask is None or mask & (mask + 1):
        return None
    return algebra.mod(p if q.const is not None else q, algebra.integer(mask + 1))


@law("bitor", "x | 0 = x, x | x = x, x | -1 = -1, in order")
def _or(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    return _bits(algebra, "bitor", p, q, lambda a, b: a | b, {0: None, -1: -1}, p)


@law("bitxor", "x ^ 0 = x, x ^ x = 0, x ^ -1 = -x - 1, in order")
def _xor(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    for constant, other in ((p, q), (q, p)):
        if constant.const == -1:
            return algebra.sub(algebra.neg(other), algebra.one)
    return _bits(algebra, "bitxor", p, q, lambda a, b: a ^ b, {0: None}, algebra.zero)


def _bits(
    algebra: Algebra,
    kind: str,
    p: IntExpr,
    q: IntExpr,
    compute: Callable[[int, int], int],
    constants: dict[int, int | None],
    same: IntExpr,
) -> IntExpr | None:
    """The laws that and, or and xor share; `constants`: the result for a constant, None being the other side."""
    if p.const is not None and q.const is not None:
        return algebra.integer(compute(p.const, q.const))
    if p is q:
        return same
    for constant, other in ((p, q), (q, p)):
        if constant.const in constants:
            value: Any = constants[constant.const]
            return other if value is None else algebra.integer(value)
    return algebra.bitwise(kind, q, p) if q.terms < p.terms else None


@law("lshift", "x << n = x * 2**n for a constant n, which raises as Python does for n < 0")
def _shift_left(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    if q.const is None:
        return None
    return algebra.scale(p, 1 << q.const)


@law("rshift", "x >> n = x // 2**n for a constant n, which raises as Python does for n < 0")
def _shift_right(algebra: Algebra, p: IntExpr, q: IntExpr) -> IntExpr | None:
    if q.const is None:
        return None
    return algebra.floordiv(p, algebra.integer(1 << q.const))
