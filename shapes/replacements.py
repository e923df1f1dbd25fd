"""Known equalities, used to eliminate atoms.

Each equality that the program decided (`s1 == s0`, `s1 == 2*s0`, `s1 == 5`, `s0 % 8 == 0`) eliminates one atom; `reduce`
rewrites an expression over the remaining atoms. Values are kept reduced, as in a union-find with compressed paths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shapes.floats import FloatExpr
from shapes.polynomial import Atom, IntExpr, Monomial
from shapes.relations import INT_RELATIONS, BoolExpr

if TYPE_CHECKING:
    from shapes.algebra import Algebra

ROUNDS = 16  # a rewrite may make another atom that is replaced; more rounds than this are not worth it


class Replacements:
    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra
        self.values: dict[int, IntExpr] = {}  # index of an atom -> its value, reduced
        self.divisible: set[tuple[IntExpr, IntExpr]] = set()  # (a, b) with a % b == 0
        self.version = 0
        self._reduced_expressions: dict[Any, Any] = {}  # reduced boolean and float expressions of this version

    def _next_version(self) -> None:
        self.version += 1
        self._reduced_expressions.clear()

    # -- recording -----------------------------------------------------------------------------------------------

    def record(self, p: IntExpr) -> Atom | None:
        """Records p == 0. Returns the atom that this eliminates; None if it eliminates none."""
        p = self.reduce(p)
        atom = self._atom_to_eliminate(p)
        if atom is None:
            return None
        coefficient = dict(p.terms)[(atom.index,)]
        rest = self.algebra.sub(p, self.algebra.scale(atom.expr, coefficient))
        value = self.algebra.scale(rest, -coefficient)  # the coefficient is 1 or -1
        self.values[atom.index] = value
        if atom.kind == "mod" and value.const == 0:
            self.divisible.add((atom.args[0], atom.args[1]))
        self._next_version()
        for index, old in self.values.items():
            self.values[index] = self.reduce(old)
        self._next_version()
        return atom

    def bind(self, atom: Atom, value: IntExpr) -> None:
        """Records that an atom equals an expression."""
        self.values[atom.index] = self.reduce(value)
        self._next_version()

    def _atom_to_eliminate(self, p: IntExpr) -> Atom | None:
        """The best atom to eliminate: linear with coefficient 1 or -1, and nowhere else in p."""
        best: tuple[tuple[int, int], Atom] | None = None
        for monomial, coefficient in p.terms:
            if len(monomial) != 1 or abs(coefficient) != 1:
                continue
            atom = self.algebra.atoms[monomial[0]]
            if self._occurs_elsewhere(atom, p):
                continue
            rank = (_rank(atom), atom.index)
            if best is None or rank > best[0]:
                best = rank, atom
        return best[1] if best else None

    def _occurs_elsewhere(self, atom: Atom, p: IntExpr) -> bool:
        for monomial, _ in p.terms:
            if monomial == (atom.index,):
                continue
            if atom.index in monomial:
                return True
            if any(occurs(atom, arg) for index in monomial for arg in self.algebra.atoms[index].args):
                return True
        return False

    # -- reducing ------------------------------------------------------------------------------------------------

    def reduce(self, p: IntExpr) -> IntExpr:
        """p over the atoms that are not eliminated."""
        if not self.values or p.const is not None:
            return p
        if p.reduced_version == self.version:
            return p.reduced
        result = p
        for _ in range(ROUNDS):
            rewritten = self._rewrite(result)
            if rewritten is result:
                break
            result = rewritten
        p.reduced, p.reduced_version = result, self.version
        return result

    def reduce_any(self, expr: Any) -> Any:
        """As `reduce`, for an expression of any kind: an int, a float or a condition."""
        if not self.values:
            return expr
        if isinstance(expr, IntExpr):
            return self.reduce(expr)
        found = self._reduced_expressions.get(expr)
        if found is None:
            found = self._reduced_expressions[expr] = self._reduce_other(expr)
        return found

    def _reduce_other(self, expr: BoolExpr | FloatExpr) -> Any:
        args = tuple(map(self.reduce_any, expr.args))
        if all(new is old for new, old in zip(args, expr.args, strict=True)):
            return expr
        if isinstance(expr, FloatExpr):
            return self.algebra.float_operation(expr.op, *args)
        return rebuild(self.algebra, expr.kind, args)

    def _rewrite(self, p: IntExpr) -> IntExpr:
        changed: dict[int, IntExpr] = {}
        for atom in p.atoms():
            new = self._reduced_atom(atom)
            if new is not atom.expr:
                changed[atom.index] = new
        if changed:
            p = substitute(self.algebra, p, changed)
        return self._undo_divisions(p) if self.divisible else p

    def _reduced_atom(self, atom: Atom) -> IntExpr:
        value = self.values.get(atom.index)
        if value is not None:
            return value
        args = tuple(map(self.reduce_any, atom.args))
        if all(new is old for new, old in zip(args, atom.args, strict=True)):
            return atom.expr
        return self.algebra.rebuild(atom.kind, args)

    def _undo_divisions(self, p: IntExpr) -> IntExpr:
        """b * (a // b) = a where a % b == 0 is known."""
        for monomial, coefficient in p.terms:
            for index in monomial:
                atom = self.algebra.atoms[index]
                if atom.kind != "floordiv" or atom.args not in self.divisible:
                    continue
                rest = list(monomial)
                rest.remove(index)
                term = self.algebra.from_terms({tuple(rest): coefficient})
                factor = self.algebra.divide_exactly(term, atom.args[1])
                if factor is not None:
                    p = self.algebra.sub(p, self.algebra.from_terms({monomial: coefficient}))
                    return self.algebra.add(p, self.algebra.mul(factor, atom.args[0]))
        return p


def _rank(atom: Atom) -> int:
    """Eliminate what depends on data first, then sizes, then functions."""
    if atom.symbol is None:
        return 0
    return 1 if atom.symbol.backed else 2


def occurs(atom: Atom, expr: Any) -> bool:
    """Whether the atom stands anywhere in the expression."""
    if isinstance(expr, IntExpr):
        return any(a is atom or any(occurs(atom, arg) for arg in a.args) for a in expr.atoms())
    return any(occurs(atom, arg) for arg in expr.args)


def substitute(algebra: Algebra, p: IntExpr, values: dict[int, IntExpr]) -> IntExpr:
    """p with atoms (by index) replaced by expressions; functions inside are left alone."""
    untouched: dict[Monomial, int] = {}
    parts = []
    for monomial, coefficient in p.terms:
        if not any(index in values for index in monomial):
            untouched[monomial] = coefficient
            continue
        product = algebra.integer(coefficient)
        for index in monomial:
            product = algebra.mul(product, values.get(index, algebra.atoms[index].expr))
        parts.append(product)
    return algebra.sum([algebra.from_terms(untouched), *parts])


def rebuild(algebra: Algebra, kind: str, args: tuple[Any, ...]) -> BoolExpr:
    """The boolean expression `kind(*args)`."""
    if kind in INT_RELATIONS:
        return algebra.relation(kind, args[0], algebra.zero)
    if kind == "and":
        return algebra.all_of(args)
    if kind == "or":
        return algebra.any_of(args)
    if kind == "not":
        return algebra.negate(args[0])
    return algebra.float_relation(kind.removeprefix("float_"), *args)
