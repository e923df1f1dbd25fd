"""Decides conditions without their hints: by constants, recorded facts, equalities and ranges.

`Facts` contains all that is known of an algebra's expressions: the ranges that symbols have from the start, and the facts that
the program's decisions added. `decide(b)` is True, False, or None if it is not known.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from shapes import ranges, relaxation
from shapes.floats import FloatExpr
from shapes.operations import FLOAT, INTEGER
from shapes.polynomial import Atom, IntExpr, Terms
from shapes.ranges import ANY_FLOAT, INF, Bound, Range, intersect
from shapes.relations import INT_RELATIONS, BoolExpr
from shapes.replacements import Replacements, rebuild

if TYPE_CHECKING:
    from shapes.algebra import Algebra

MAX_SHIFT_DEGREE = 6


class Facts:
    def __init__(self, algebra: Algebra) -> None:
        self.algebra = algebra
        self.replacements = Replacements(algebra)
        self.version = 0
        self.learned: list[BoolExpr] = []
        self._form_ranges: dict[IntExpr, Range] = {}  # by form: a primitive polynomial without constant
        self._excluded_values: dict[IntExpr, set[int]] = {}  # values that a form does not take
        self._divisors: dict[IntExpr, int] = {}  # numbers that divide a form
        self._atom_ranges: dict[int, Range] = {}
        self._float_ranges: dict[FloatExpr, Range] = {}

    # -- ranges --------------------------------------------------------------------------------------------------

    def range(self, p: IntExpr) -> Range:
        """The interval in which every value of p lies."""
        if p.const is not None:
            return p.const, p.const
        if p.range_version == self.version:
            return p.range
        reduced = self.replacements.reduce(p)
        result = self._range(p) if reduced is p else self.range(reduced)
        p.range, p.range_version = result, self.version
        return result

    def _range(self, p: IntExpr) -> Range:
        low = self._lower_bound(p.terms)
        high = -self._lower_bound(tuple((monomial, -c) for monomial, c in p.terms))
        form, factor, constant = self.form(p)
        known = self._form_ranges.get(form)
        if known is not None:
            low, high = intersect((low, high), ranges.add(ranges.scale(known, factor), (constant, constant)))
        return ranges.clip(low, high)

    def _lower_bound(self, terms: Terms) -> Bound:
        """The better of two lower bounds: the sum over the terms, and the constant after writing each atom as its lower bound
        plus an unknown >= 0."""
        total: Bound = 0
        shifting = False
        for monomial, coefficient in terms:
            value: Range = (1, 1)
            for index in monomial:
                value = ranges.mul(value, self.atom_range(index))
            total += ranges.scale(value, coefficient)[0]
            shifting = shifting or (coefficient < 0 and monomial != ())
        if shifting:
            shifted = self._lower_bound_by_shifting(terms)
            if shifted is not None and shifted > total:
                return shifted
        return total

    def _lower_bound_by_shifting(self, terms: Terms) -> int | None:
        expanded: dict[tuple[int, ...], int] = {}
        for monomial, coefficient in terms:
            if len(monomial) > MAX_SHIFT_DEGREE:
                return None
            product: dict[tuple[int, ...], int] = {(): coefficient}
            for index in monomial:
                low = self.atom_range(index)[0]
                if low == -INF:
                    return None
                longer: dict[tuple[int, ...], int] = {}
                for m, c in product.items():
                    longer[m + (index,)] = longer.get(m + (index,), 0) + c
                    if low:
                        longer[m] = longer.get(m, 0) + c * low
                product = longer
            for m, c in product.items():
                expanded[m] = expanded.get(m, 0) + c
        constant = expanded.pop((), 0)
        return constant if all(c >= 0 for c in expanded.values()) else None

    def atom_range(self, index: int) -> Range:
        found = self._atom_ranges.get(index)
        if found is None:
            atom = self.algebra.atoms[index]
            found = self._atom_range(atom)
            known = self._form_ranges.get(atom.expr)
            if known is not None:
                found = intersect(found, known)
            self._atom_ranges[index] = found
        return found

    def _atom_range(self, atom: Atom) -> Range:
        if atom.symbol is not None:
            return intersect(atom.symbol.base, atom.symbol.trusted)
        return self.function_range(atom.kind, atom.args)

    def function_range(self, kind: str, args: tuple[Any, ...]) -> Range:
        if kind == "mod":
            rest = self._known_remainder(*args)
            if rest is not None:
                return rest, rest
        bounds = INTEGER[kind].range
        assert bounds is not None
        return bounds(*map(self.any_range, args))

    def any_range(self, expr: Any) -> Range:
        if isinstance(expr, IntExpr):
            return self.range(expr)
        return self.float_range(expr) if isinstance(expr, FloatExpr) else (0, 1)

    def float_range(self, x: FloatExpr) -> Range:
        """The interval of a float; ANY_FLOAT, and only that, may be nan."""
        if x.const is not None:
            return (x.const, x.const) if math.isfinite(x.const) else ANY_FLOAT
        found = self._float_ranges.get(x)
        if found is None:
            found = self._float_ranges[x] = self._float_range(x)
        return found

    def _float_range(self, x: FloatExpr) -> Range:
        bounds = FLOAT[x.op].range if x.op in FLOAT else None
        if bounds is None:
            return ANY_FLOAT
        args = [self.any_range(arg) for arg in x.args]
        if x.op not in ("float", "int_truediv") and ANY_FLOAT in args:
            return ANY_FLOAT
        return bounds(*args)

    def _known_remainder(self, p: IntExpr, q: IntExpr) -> int | None:
        """p % q where p is a known multiple plus a constant."""
        if not self._divisors or not q.const or p.const is not None:
            return None
        form, factor, constant = self.form(self.replacements.reduce(p))
        if factor * self._divisors.get(form, 0) and factor * self._divisors[form] % q.const == 0:
            return constant % q.const
        return None

    def form(self, p: IntExpr) -> tuple[IntExpr, int, int]:
        """(f, k, c) with p == k*f + c, f without constant or common divisor, its last coefficient positive."""
        if p.form is None:
            constant = p.constant_term()
            terms = [(m, c) for m, c in p.terms if m]
            factor = math.gcd(*(c for _, c in terms))
            if terms and terms[-1][1] < 0:
                factor = -factor
            p.form = self.algebra.from_terms({m: c // factor for m, c in terms}), factor, constant
        return p.form

    # -- deciding ------------------------------------------------------------------------------------------------

    def decide(self, b: BoolExpr) -> bool | None:
        """Whether b holds for every value that the facts allow, for none (False), or for some (None)."""
        if b.decided is not None:
            return b.decided
        if b.undecided_version == self.version:
            return None
        result = self._decide(b)
        if result is None:
            b.undecided_version = self.version
        else:
            b.decided = result
        return result

    def _decide(self, b: BoolExpr) -> bool | None:
        if b.kind in INT_RELATIONS:
            return self._decide_relation(b)
        if b.kind == "and" or b.kind == "or":
            absorbing = b.kind == "or"
            parts = [self.decide(part) for part in b.args]
            return absorbing if absorbing in parts else None if None in parts else not absorbing
        if b.kind == "not":
            inner = self.decide(b.args[0])
            return None if inner is None else not inner
        return self._decide_floats(b)

    def _decide_relation(self, b: BoolExpr) -> bool | None:
        # 1. Over the symbols that known equalities leave.
        p = self.replacements.reduce(b.args[0])
        if p is not b.args[0]:
            return self.decide(rebuild(self.algebra, b.kind, (p,)))
        # 2. By its bounds: term by term, by shifting every atom to its lower bound, and as recorded for p itself.
        low, high = self.range(p)
        # 3. By one recorded fact that p is a multiple of, plus something of one sign; by bounds of its functions.
        if b.kind == "ge":
            if low >= 0:
                return True
            if high < 0:
                return False
            return self._decide_sign(p)
        equal = self._decide_zero(p, low, high)
        return equal if equal is None or b.kind == "eq" else not equal

    def _decide_zero(self, p: IntExpr, low: Bound, high: Bound) -> bool | None:
        if low > 0 or high < 0:
            return False
        if low == high == 0:
            return True
        form, factor, constant = self.form(p)
        if constant % factor or -constant // factor in self._excluded_values.get(form, ()):
            return False
        divisor = self._divisors.get(form)
        if divisor and constant % (factor * divisor):
            return False
        negative = self.algebra.neg(p)
        one = self.algebra.one
        for strict in (self.algebra.sub(p, one), self.algebra.sub(negative, one)):  # p > 0 or p < 0
            if self._decide_sign(strict):
                return False
        return None

    def _decide_sign(self, p: IntExpr) -> bool | None:
        """Whether p >= 0, where its range does not tell."""
        known = self._decide_by_one_fact(p)
        if known is not None or not relaxation.has_functions(p):
            return known
        if relaxation.nonnegative(self, p):
            return True
        opposite = self.algebra.sub(self.algebra.neg(p), self.algebra.one)
        return False if relaxation.nonnegative(self, opposite) else None

    def _decide_by_one_fact(self, p: IntExpr) -> bool | None:
        """Whether p >= 0, or p < 0, follows from one recorded fact k*f >= c: p = (p - k*f) + k*f."""
        if not self._form_ranges:
            return None
        coefficients = dict(p.terms)
        for form, known in self._form_ranges.items():
            if len(form.terms) == 1 and len(form.terms[0][0]) == 1:
                continue  # the range of an atom is in the intervals already
            monomial, lead = form.terms[-1]
            factor, left = divmod(coefficients.get(monomial, 0), lead)
            if not factor or left:
                continue
            rest = self.algebra.sub(p, self.algebra.scale(form, factor))
            low, high = ranges.add(self.range(rest), ranges.scale(known, factor))
            if low >= 0:
                return True
            if high < 0:
                return False
        return None

    def _decide_floats(self, b: BoolExpr) -> bool | None:
        reduced = self.replacements.reduce_any(b)
        if reduced is not b:
            return self.decide(reduced)
        (low, high), (other_low, other_high) = map(self.float_range, b.args)
        if (low, high) == ANY_FLOAT or (other_low, other_high) == ANY_FLOAT:
            return None
        if b.kind == "float_eq":
            return False if high < other_low or low > other_high else None
        if b.kind == "float_lt":
            return True if high < other_low else False if low >= other_high else None
        return True if high <= other_low else False if low > other_high else None

    def sharpen(self, b: BoolExpr) -> BoolExpr:
        """A simpler condition that, given the facts, is equivalent: x != 2 is x >= 3 if x >= 2 is known."""
        if b.kind != "ne":
            return b
        p = self.replacements.reduce(b.args[0])
        low, high = self.range(p)
        if low == 0:
            return self.algebra.at_least_zero(self.algebra.sub(p, self.algebra.one), b.asked)
        if high == 0:
            return self.algebra.at_least_zero(self.algebra.sub(self.algebra.neg(p), self.algebra.one), b.asked)
        return b

    # -- learning ------------------------------------------------------------------------------------------------

    def learn(self, b: BoolExpr) -> None:
        """Adds a fact."""
        self.learned.append(b)
        self._learn(b)
        self._mark_true(b)
        self._next_version()

    def _mark_true(self, b: BoolExpr) -> None:
        b.decided = True
        self.algebra.negate(b).decided = False

    def _next_version(self) -> None:
        self.version += 1
        self._atom_ranges.clear()
        self._float_ranges.clear()

    def _learn(self, b: BoolExpr) -> None:
        if b.kind == "and":
            for part in b.args:
                self._learn(part)
                self._mark_true(part)
        elif b.kind == "or":
            open_parts = [part for part in b.args if self.decide(part) is not False]
            if len(open_parts) == 1:
                self._learn(open_parts[0])
                self._mark_true(open_parts[0])
        elif b.kind in INT_RELATIONS:
            p = self.replacements.reduce(b.args[0])
            if p.const is None:
                self._learn_relation(b.kind, p)

    def _learn_relation(self, kind: str, p: IntExpr) -> None:
        form, factor, constant = self.form(p)
        if kind == "ge":  # k*f + c >= 0
            if factor > 0:
                self._restrict(form, -(constant // factor), INF)
            else:
                self._restrict(form, -INF, constant // -factor)
        elif constant % factor == 0:
            value = -constant // factor
            if kind == "ne":
                self._excluded_values.setdefault(form, set()).add(value)
                self._restrict(form, *self.range(form))
            else:
                self._restrict(form, value, value)

    def _restrict(self, form: IntExpr, low: Bound, high: Bound) -> None:
        """Adds low <= form <= high; also moves the bounds past values that the form cannot have."""
        low, high = intersect((low, high), self._form_ranges.get(form, (-INF, INF)))
        holes = self._excluded_values.get(form)
        if holes:
            low, high = intersect((low, high), self.range(form))
            while low in holes:
                low += 1
            while high in holes:
                high -= 1
        self._form_ranges[form] = (low, high)
        self._next_version()
        if low == high and self.replacements.reduce(form) is form:  # x <= 5 and x >= 5: an equality
            self._record_equality(self.algebra.sub(form, self.algebra.integer(int(low))))

    def _record_equality(self, p: IntExpr) -> None:
        atom = self.replacements.record(p)
        if atom is None:
            return
        if atom.kind == "mod" and self.replacements.values[atom.index].const is not None:
            self._learn_remainder(atom)
        self._next_version()
        self._transfer_facts(atom)

    def _learn_remainder(self, atom: Atom) -> None:
        """a % b == r: b divides a - r."""
        dividend, divisor = atom.args
        remainder = self.replacements.values[atom.index].const or 0
        form, factor, constant = self.form(dividend)
        if divisor.const and (constant - remainder) % divisor.const == 0:
            multiple = abs(divisor.const) // math.gcd(divisor.const, factor)
            self._divisors[form] = math.lcm(multiple, self._divisors.get(form, 1))

    def _transfer_facts(self, gone: Atom) -> None:
        """Transfers the facts about an eliminated atom to the expression that replaces it."""
        stale = [(form, known) for form, known in self._form_ranges.items() if self.replacements.reduce(form) is not form]
        if gone.symbol is not None:
            stale.append((gone.expr, intersect(gone.symbol.base, gone.symbol.trusted)))
        for form, known in stale:
            self._form_ranges.pop(form, None)
            reduced = self.replacements.reduce(form)
            if reduced.const is not None:
                continue
            new, factor, constant = self.form(reduced)
            low, high = ranges.add(known, (-constant, -constant))
            if factor < 0:
                low, high = -high, -low
            size = abs(factor)
            self._restrict(new, low if low == -INF else -(-low // size), high if high == INF else high // size)

    def alias(self, atom: Atom, value: IntExpr) -> None:
        """Adds the fact that an atom equals an expression."""
        self.replacements.bind(atom, value)
        self._next_version()
        self._transfer_facts(atom)
