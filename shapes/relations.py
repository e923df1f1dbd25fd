"""Boolean expressions: integer relations as `p == 0`, `p != 0` and `p >= 0`, relations of floats, and, or, not.

Equal relations are one object. For messages, a relation remembers the form in which the program first wrote it (`2*s0 >= 16` for
`s0 - 8 >= 0`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from shapes import relation_laws
from shapes.polynomial import IntExpr, Polynomials

if TYPE_CHECKING:
    from shapes.algebra import Algebra

INT_RELATIONS = ("eq", "ne", "ge")
FLOAT_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "float_eq": operator.eq,
    "float_lt": operator.lt,
    "float_le": operator.le,
}
NEGATED = {"eq": "ne", "ne": "eq", "ge": "lt", "lt": "ge", "gt": "le", "le": "gt"}


class BoolExpr:
    """A boolean expression; `&`, `|` and `~` combine them."""

    __slots__ = (
        "algebra", "kind", "args", "hint", "order", "asked", "functions", "handle", "sympy_form",
        "decided", "undecided_version", "__weakref__",
    )  # fmt: skip

    algebra: Algebra
    kind: str  # true false | eq ne ge: one IntExpr | float_eq float_lt float_le: two FloatExpr | and or not
    args: tuple[Any, ...]
    hint: bool | None
    order: int
    asked: tuple[str, IntExpr, IntExpr] | None
    functions: int  # as of an IntExpr
    handle: Any
    sympy_form: Any
    decided: bool | None  # its value, once that is known; facts are never retracted
    undecided_version: int  # the version of the facts at which it was not known

    def __and__(self, other: BoolExpr) -> BoolExpr:
        return self.algebra.all_of((self, other))

    def __or__(self, other: BoolExpr) -> BoolExpr:
        return self.algebra.any_of((self, other))

    def __invert__(self) -> BoolExpr:
        return self.algebra.negate(self)

    @property
    def const(self) -> bool | None:
        return self.kind == "true" if self.kind in ("true", "false") else None

    @property
    def sympy(self) -> Any:
        return self.algebra.to_sympy(self)

    def __repr__(self) -> str:
        return self.algebra.show(self)


class Relations(Polynomials):
    """Making boolean expressions."""

    def __init__(self) -> None:
        super().__init__()
        self._bools: dict[tuple[Any, ...], BoolExpr] = {}
        self._relations: dict[tuple[str, IntExpr, IntExpr], BoolExpr] = {}
        self.true = self._bool("true", ())
        self.false = self._bool("false", ())

    def boolean(self, value: bool) -> BoolExpr:
        return self.true if value else self.false

    def _bool(self, kind: str, args: tuple[Any, ...], asked: tuple[str, IntExpr, IntExpr] | None = None) -> BoolExpr:
        key = (kind, *args)
        found = self._bools.get(key)
        if found is None:
            found = BoolExpr()
            found.algebra = self  # type: ignore[assignment]  # an Algebra
            found.kind, found.args, found.order, found.asked = kind, args, len(self._bools), asked
            found.hint = _hint(kind, args)
            found.functions = sum(arg.functions for arg in args)
            found.handle = found.sympy_form = None
            found.decided = kind == "true" if kind in ("true", "false") else None
            found.undecided_version = -1
            self._bools[key] = found
        return found

    # -- relations of integers -----------------------------------------------------------------------------------

    def relation(self, op: str, p: IntExpr, q: IntExpr) -> BoolExpr:
        """`p op q` for op in eq ne lt le gt ge."""
        key = (op, p, q)
        found = self._relations.get(key)
        if found is None:
            found = self._relations[key] = self._relation(op, p, q)
        return found

    def _relation(self, op: str, p: IntExpr, q: IntExpr) -> BoolExpr:
        asked = (op, p, q)
        if op == "eq":
            return self.equals_zero(self.sub(p, q), asked)
        if op == "ne":
            return self.negate(self.equals_zero(self.sub(p, q), ("eq", p, q)))
        if op == "ge":
            return self.at_least_zero(self.sub(p, q), asked)
        if op == "le":
            return self.at_least_zero(self.sub(q, p), asked)
        if op == "gt":  # p > q  <=>  p - q - 1 >= 0
            return self.at_least_zero(self.sub(self.sub(p, q), self.one), asked)
        if op == "lt":
            return self.at_least_zero(self.sub(self.sub(q, p), self.one), asked)
        raise ValueError(f"unknown relation {op!r}; known: eq ne lt le gt ge")

    def equals_zero(self, p: IntExpr, asked: tuple[str, IntExpr, IntExpr] | None = None) -> BoolExpr:
        """p == 0, divided by the common divisor, first coefficient positive."""
        if p.const is not None:
            return self.boolean(p.const == 0)
        constant = p.constant_term()
        divisor = math.gcd(*(c for m, c in p.terms if m))
        if constant % divisor:  # g*f + c == 0 has no integer solution unless g divides c
            return self.false
        if p.terms[-1][1] < 0:
            divisor = -divisor
        p = self.from_terms({m: c // divisor for m, c in p.terms})
        simpler = relation_laws.simpler(p.algebra, "eq", p)
        return self._bool("eq", (p,), asked) if simpler is p else self.equals_zero(simpler, asked)

    def at_least_zero(self, p: IntExpr, asked: tuple[str, IntExpr, IntExpr] | None = None) -> BoolExpr:
        """p >= 0; g*f + c >= 0 <=> f + c // g >= 0"""
        if p.const is not None:
            return self.boolean(p.const >= 0)
        divisor = math.gcd(*(c for m, c in p.terms if m))
        p = self.from_terms({m: c // divisor for m, c in p.terms})
        simpler = relation_laws.simpler(p.algebra, "ge", p)
        return self._bool("ge", (p,), asked) if simpler is p else self.at_least_zero(simpler, asked)

    # -- and, or, not --------------------------------------------------------------------------------------------

    def negate(self, b: BoolExpr) -> BoolExpr:
        kind = b.kind
        asked = (NEGATED[b.asked[0]], *b.asked[1:]) if b.asked else None
        if kind in ("true", "false"):
            return self.boolean(kind == "false")
        if kind in ("eq", "ne"):
            return self._bool(NEGATED[kind], b.args, asked)
        if kind == "ge":  # not p >= 0  <=>  -p - 1 >= 0
            return self.at_least_zero(self.sub(self.neg(b.args[0]), self.one), asked)
        if kind in ("and", "or"):
            combine = self.any_of if kind == "and" else self.all_of
            return combine([self.negate(arg) for arg in b.args])
        if kind == "not":
            negated: BoolExpr = b.args[0]
            return negated
        return self._bool("not", (b,))

    def all_of(self, parts: Iterable[BoolExpr]) -> BoolExpr:
        return self._join("and", parts, self.true, self.false)

    def any_of(self, parts: Iterable[BoolExpr]) -> BoolExpr:
        return self._join("or", parts, self.false, self.true)

    def _join(self, kind: str, parts: Iterable[BoolExpr], neutral: BoolExpr, absorbing: BoolExpr) -> BoolExpr:
        flat: dict[BoolExpr, None] = {}
        for part in parts:
            if part is absorbing:
                return absorbing
            if part is not neutral:
                flat.update(dict.fromkeys(part.args if part.kind == kind else (part,)))
        for part in flat:
            if self.negate(part) in flat:  # x and not x -> false, x or not x -> true
                return absorbing
        if not flat:
            return neutral
        if len(flat) == 1:
            return next(iter(flat))
        return self._bool(kind, tuple(sorted(flat, key=lambda part: part.order)))


def _hint(kind: str, args: tuple[Any, ...]) -> bool | None:
    if kind in ("true", "false"):
        return kind == "true"
    hints = [arg.hint for arg in args]
    if kind == "and":
        return False if False in hints else None if None in hints else True
    if kind == "or":
        return True if True in hints else None if None in hints else False
    if None in hints:
        return None
    if kind == "eq":
        return bool(hints[0] == 0)
    if kind == "ne":
        return bool(hints[0] != 0)
    if kind == "ge":
        return bool(hints[0] >= 0)
    if kind == "not":
        return not hints[0]
    return FLOAT_RELATIONS[kind](*hints)
