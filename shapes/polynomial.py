"""Interned integer polynomials over atoms: the expressions of the hot path.

An atom is a symbol, or an integer function of expressions that does not expand (floor division, modulo, min, max,
bit operations, rounding of a float). Equal polynomials are one object, so equality is identity; every operation is
memoised; hints are computed as expressions are built. The laws of the functions stand in `simplify`, SymPy in
`conversion`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from shapes.operations import INTEGER

if TYPE_CHECKING:
    from shapes.algebra import Algebra
    from shapes.symbols import Symbol

Monomial = tuple[int, ...]  # indices of atoms, sorted, repeated for powers; () is the constant
Terms = tuple[tuple[Monomial, int], ...]  # sorted by monomial, no zero coefficient

MAX_TERMS = 256  # a product that would have more terms stays an opaque atom
MAX_DEGREE = 32


class Atom:
    """A symbol, or a function applied to expressions."""

    __slots__ = ("index", "kind", "args", "hint", "symbol", "functions", "expr")

    def __init__(self, index: int, kind: str, args: tuple[Any, ...], hint: int | None, symbol: Symbol | None) -> None:
        self.index = index
        self.kind = kind  # "symbol" or a key of operations.INTEGER
        self.args = args
        self.hint = hint
        self.symbol = symbol
        self.functions = 0 if kind == "symbol" else 1 + sum(arg.functions for arg in args)
        self.expr: IntExpr  # the polynomial that is this atom alone

    def __repr__(self) -> str:
        return self.symbol.name if self.symbol else f"{self.kind}({', '.join(map(str, self.args))})"


class IntExpr:
    """An integer expression. `==` is identity (use `.eq` for the relation), `<` and friends make relations."""

    __slots__ = (
        "algebra", "terms", "const", "hint", "handle", "sympy_form", "form",
        "functions", "range", "range_version", "reduced", "reduced_version", "__weakref__",
    )  # fmt: skip

    algebra: Algebra
    terms: Terms
    const: int | None  # the value of a constant expression
    hint: int | None  # the value in the traced call; None if an unbacked symbol takes part
    handle: Any  # for the front end that wraps expressions
    sympy_form: Any
    form: tuple[IntExpr, int, int] | None
    functions: int  # number of function applications; a shared subexpression counts each time it occurs
    range: tuple[Any, Any]
    range_version: int
    reduced: IntExpr
    reduced_version: int

    def _lift(self, other: IntExpr | int) -> IntExpr:
        return other if isinstance(other, IntExpr) else self.algebra.integer(other)

    def __add__(self, other: IntExpr | int) -> IntExpr:
        return self.algebra.add(self, self._lift(other))

    def __sub__(self, other: IntExpr | int) -> IntExpr:
        return self.algebra.sub(self, self._lift(other))

    def __rsub__(self, other: int) -> IntExpr:
        return self.algebra.sub(self._lift(other), self)

    def __mul__(self, other: IntExpr | int) -> IntExpr:
        return self.algebra.mul(self, self._lift(other))

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> IntExpr:
        return self.algebra.neg(self)

    def __floordiv__(self, other: IntExpr | int) -> IntExpr:
        return self.algebra.floordiv(self, self._lift(other))

    def __rfloordiv__(self, other: int) -> IntExpr:
        return self.algebra.floordiv(self._lift(other), self)

    def __mod__(self, other: IntExpr | int) -> IntExpr:
        return self.algebra.mod(self, self._lift(other))

    def __rmod__(self, other: int) -> IntExpr:
        return self.algebra.mod(self._lift(other), self)

    def __pow__(self, other: IntExpr | int) -> IntExpr:
        return self.algebra.power(self, self._lift(other))

    def __abs__(self) -> IntExpr:
        return self.algebra.maximum(self, self.algebra.neg(self))

    def eq(self, other: IntExpr | int) -> Any:
        return self.algebra.relation("eq", self, self._lift(other))

    def ne(self, other: IntExpr | int) -> Any:
        return self.algebra.relation("ne", self, self._lift(other))

    def __lt__(self, other: IntExpr | int) -> Any:
        return self.algebra.relation("lt", self, self._lift(other))

    def __le__(self, other: IntExpr | int) -> Any:
        return self.algebra.relation("le", self, self._lift(other))

    def __gt__(self, other: IntExpr | int) -> Any:
        return self.algebra.relation("gt", self, self._lift(other))

    def __ge__(self, other: IntExpr | int) -> Any:
        return self.algebra.relation("ge", self, self._lift(other))

    @property
    def sympy(self) -> Any:
        """The SymPy form."""
        return self.algebra.to_sympy(self)

    def __repr__(self) -> str:
        return str(self.const) if self.const is not None else self.algebra.show(self)

    def constant_term(self) -> int:
        first = self.terms[0] if self.terms else ((), 0)
        return first[1] if first[0] == () else 0

    def single_atom(self) -> Atom | None:
        """The atom, if the expression is just one atom."""
        if len(self.terms) == 1:
            (monomial, coefficient) = self.terms[0]
            if coefficient == 1 and len(monomial) == 1:
                return self.algebra.atoms[monomial[0]]
        return None

    def atoms(self) -> Iterator[Atom]:
        """The atoms of the polynomial itself, each once, in order; not those in arguments of functions."""
        seen = dict.fromkeys(index for monomial, _ in self.terms for index in monomial)
        return (self.algebra.atoms[index] for index in seen)


class Polynomials:
    """The ring: interning, sums, products, exact division."""

    def __init__(self) -> None:
        self.atoms: list[Atom] = []
        self._atom_of: dict[tuple[Any, ...], Atom] = {}
        self._interned: dict[Terms, IntExpr] = {}
        self._integers: dict[int, IntExpr] = {}
        self._sums: dict[tuple[IntExpr, IntExpr], IntExpr] = {}
        self._differences: dict[tuple[IntExpr, IntExpr], IntExpr] = {}
        self._products: dict[tuple[IntExpr, IntExpr], IntExpr] = {}
        self.zero = self.integer(0)
        self.one = self.integer(1)

    # -- making expressions --------------------------------------------------------------------------------------

    def integer(self, value: int) -> IntExpr:
        found = self._integers.get(value)
        if found is None:
            if not isinstance(value, int):
                raise TypeError(f"an integer is needed here, not {type(value).__name__} {value!r}")
            value = int(value)  # True is 1
            found = self._integers[value] = self._intern((((), value),) if value else ())
        return found

    def from_terms(self, terms: dict[Monomial, int]) -> IntExpr:
        return self._intern(tuple(sorted(term for term in terms.items() if term[1])))

    def _intern(self, terms: Terms) -> IntExpr:
        found = self._interned.get(terms)
        if found is None:
            found = self._interned[terms] = self._new(terms)
        return found

    def _new(self, terms: Terms) -> IntExpr:
        expr = IntExpr()
        expr.algebra = self  # type: ignore[assignment]  # an Algebra
        expr.terms = terms
        expr.const = None
        if not terms:
            expr.const = 0
        elif len(terms) == 1 and terms[0][0] == ():
            expr.const = terms[0][1]
        expr.hint = self._hint(terms)
        expr.functions = sum(self.atoms[index].functions for monomial, _ in terms for index in monomial)
        expr.handle = expr.sympy_form = expr.form = None
        expr.range_version = expr.reduced_version = -1
        return expr

    def _hint(self, terms: Terms) -> int | None:
        total = 0
        for monomial, value in terms:
            for index in monomial:
                hint = self.atoms[index].hint
                if hint is None:
                    return None
                value *= hint
            total += value
        return total

    def new_symbol_atom(self, symbol: Symbol) -> Atom:
        return self._new_atom(("symbol", symbol), "symbol", (), symbol.hint, symbol)

    def function(self, kind: str, *args: Any) -> IntExpr:
        """The atom `kind(*args)`, whose hint is what Python computes from the hints of the arguments."""
        key = (kind, *args)
        atom = self._atom_of.get(key)
        if atom is None:
            hints = [arg.hint for arg in args]
            hint = None if None in hints else INTEGER[kind].python(*hints)
            atom = self._new_atom(key, kind, args, hint, None)
        return atom.expr

    def _new_atom(self, key: tuple[Any, ...], kind: str, args: tuple[Any, ...], hint: int | None, symbol: Symbol | None) -> Atom:
        atom = Atom(len(self.atoms), kind, args, hint, symbol)
        self.atoms.append(atom)
        atom.expr = self._intern((((atom.index,), 1),))
        self._atom_of[key] = atom
        return atom

    # -- the ring ------------------------------------------------------------------------------------------------

    def add(self, p: IntExpr, q: IntExpr) -> IntExpr:
        key = (p, q)
        result = self._sums.get(key)
        if result is None:
            terms = dict(p.terms)
            for monomial, coefficient in q.terms:
                terms[monomial] = terms.get(monomial, 0) + coefficient
            result = self._sums[key] = self.from_terms(terms)
        return result

    def sub(self, p: IntExpr, q: IntExpr) -> IntExpr:
        key = (p, q)
        result = self._differences.get(key)
        if result is None:
            terms = dict(p.terms)
            for monomial, coefficient in q.terms:
                terms[monomial] = terms.get(monomial, 0) - coefficient
            result = self._differences[key] = self.from_terms(terms)
        return result

    def sum(self, addends: Iterable[IntExpr]) -> IntExpr:
        terms: dict[Monomial, int] = {}
        for addend in addends:
            for monomial, coefficient in addend.terms:
                terms[monomial] = terms.get(monomial, 0) + coefficient
        return self.from_terms(terms)

    def neg(self, p: IntExpr) -> IntExpr:
        return self.sub(self.zero, p)

    def scale(self, p: IntExpr, factor: int) -> IntExpr:
        return self.mul(p, self.integer(factor))

    def mul(self, p: IntExpr, q: IntExpr) -> IntExpr:
        key = (p, q)
        result = self._products.get(key)
        if result is None:
            result = self._products[key] = self._mul(p, q)
        return result

    def _mul(self, p: IntExpr, q: IntExpr) -> IntExpr:
        if len(p.terms) * len(q.terms) > MAX_TERMS or (p.terms and q.terms and degree(p) + degree(q) > MAX_DEGREE):
            if p.const is None and q.const is None:
                return self.function("product", *sorted((p, q), key=lambda e: e.terms))
        terms: dict[Monomial, int] = {}
        for m, a in p.terms:
            for n, b in q.terms:
                monomial = tuple(sorted(m + n)) if m and n else m or n
                terms[monomial] = terms.get(monomial, 0) + a * b
        return self.from_terms(terms)

    def divide_exactly(self, p: IntExpr, q: IntExpr) -> IntExpr | None:
        """The polynomial r with p == q * r, if there is one."""
        lead, lead_coefficient = max(q.terms, key=_graded)
        remainder = dict(p.terms)
        quotient: dict[Monomial, int] = {}
        for _ in range(64):
            if not remainder:
                return self.from_terms(quotient)
            monomial, coefficient = max(remainder.items(), key=_graded)
            rest = monomial_quotient(monomial, lead)
            if rest is None or coefficient % lead_coefficient:
                return None
            factor = coefficient // lead_coefficient
            quotient[rest] = quotient.get(rest, 0) + factor
            for m, c in q.terms:
                product = tuple(sorted(m + rest))
                left = remainder.get(product, 0) - c * factor
                if left:
                    remainder[product] = left
                else:
                    remainder.pop(product, None)
        return None

    def split(self, p: IntExpr, divisor: IntExpr) -> tuple[IntExpr, IntExpr]:
        """(a, r) with p == a * divisor + r, for a divisor of one term. r has no term that the divisor divides."""
        (n, d) = divisor.terms[0]
        whole: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        for monomial, coefficient in p.terms:
            quotient = monomial_quotient(monomial, n)
            times, left = divmod(coefficient, d) if quotient is not None and d > 0 else (0, coefficient)
            if quotient is not None and times:
                whole[quotient] = times
            if left:
                rest[monomial] = left
        return self.from_terms(whole), self.from_terms(rest)

    def symbols(self, *exprs: Any) -> list[Symbol]:
        """The symbols that expressions are made of, at any depth, in order of creation."""
        found: dict[int, Symbol] = {}
        stack = list(exprs)
        seen: set[int] = set()
        while stack:
            expr = stack.pop()
            if id(expr) in seen:
                continue
            seen.add(id(expr))
            if isinstance(expr, IntExpr):
                for atom in expr.atoms():
                    if atom.symbol is not None:
                        found[atom.symbol.order] = atom.symbol
                    stack.extend(atom.args)
            else:
                symbol = getattr(expr, "symbol", None)
                if symbol is not None:
                    found[symbol.order] = symbol
                stack.extend(getattr(expr, "args", ()))
        return [found[order] for order in sorted(found)]


def degree(p: IntExpr) -> int:
    return max(len(monomial) for monomial, _ in p.terms)


def content(p: IntExpr) -> int:
    """The greatest common divisor of all coefficients; 0 for the zero polynomial."""
    return math.gcd(*(coefficient for _, coefficient in p.terms))


def _graded(term: tuple[Monomial, int]) -> tuple[int, Monomial]:
    return len(term[0]), term[0]


def monomial_quotient(m: Monomial, n: Monomial) -> Monomial | None:
    """m / n, or None where n does not divide m."""
    if not n:
        return m
    rest = list(m)
    for index in n:
        if index not in rest:
            return None
        rest.remove(index)
    return tuple(rest)
