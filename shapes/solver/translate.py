"""Translates SymPy booleans over integers to z3 terms, with Python's semantics.

A term has a value and a condition under which Python computes it without raising: `x // y` is defined for y != 0. A guard that
raises is a miss, so a relation *holds* if it is true and defined. `and`, `or` and `if` are evaluated as by Python, left to
right and no further than needed. An expression with a float inside, or without a translation, is opaque: an unknown, the same
for the same expression, which may or may not be defined.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import sympy
from sympy import Expr, Symbol
from sympy.core.relational import Relational

from shapes.evaluation import ordered_args
from shapes.solver.bounds import Bounds
from shapes.solver.terms import Terms
from shapes.sympy_functions import FloorDiv, Max, Min, PythonMod, Where


class Meaning(NamedTuple):
    """A z3 value, and the z3 conditions under which it is defined."""

    value: Any
    defined: tuple[Any, ...] = ()


class NotInteger(Exception):
    """Raised inside a translation when a term is not an integer; the relation round it becomes opaque."""


Rule = Callable[["Translator", Any], Meaning]
RULES: dict[type, Rule] = {}


def translates(*kinds: type) -> Callable[[Rule], Rule]:
    """Registers the translation of a kind of expression that is an integer if its arguments are."""

    def register(rule: Rule) -> Rule:
        for kind in kinds:
            RULES[kind] = rule
        return rule

    return register


class Translator:
    """Translates into the terms of one problem; `opaque` collects the expressions that are unknowns in it. `readable`: a symbol
    keeps its name in z3, unless another symbol has the same name."""

    def __init__(self, terms: Terms, bounds: Bounds, *, readable: bool = False) -> None:
        self.terms = terms
        self.bounds = bounds
        self.readable = readable
        self.symbols: dict[Symbol, Any] = {}
        self.opaque: dict[Any, Meaning] = {}
        self.axioms: list[Any] = []  # what always holds of the unknowns; whoever solves the problem asserts them
        self._integers: dict[Expr, Meaning] = {}
        self._booleans: dict[Any, Meaning] = {}
        self._fresh = itertools.count()

    def holds(self, expr: Any) -> Any:
        """The z3 condition under which Python evaluates `expr` to True without raising."""
        meaning = self.boolean(expr)
        return self.terms.conjunction((*meaning.defined, meaning.value))

    def add_axiom(self, condition: Any) -> None:
        self.axioms.append(condition)

    def fresh_boolean(self) -> Any:
        return self.terms.boolean_symbol(f"fresh!{next(self._fresh)}")

    # ---- booleans

    def boolean(self, expr: Any) -> Meaning:
        known = self._booleans.get(expr)
        if known is None:
            known = self._booleans[expr] = self._boolean(expr)
        return known

    def _boolean(self, expr: Any) -> Meaning:
        if expr is sympy.true:
            return Meaning(self.terms.true)
        if expr is sympy.false:
            return Meaning(self.terms.false)
        if isinstance(expr, Relational):
            return self._relation(expr)
        if isinstance(expr, sympy.And):
            return self._connective(ordered_args(expr), stop=False)
        if isinstance(expr, sympy.Or):
            return self._connective(ordered_args(expr), stop=True)
        if isinstance(expr, sympy.Not):
            inner = self.boolean(expr.args[0])
            return Meaning(self.terms.negation(inner.value), inner.defined)
        if isinstance(expr, sympy.ITE):
            condition, a, b = expr.args
            return self._choice(self.boolean(condition), self.boolean(a), self.boolean(b))
        if isinstance(expr, Symbol):
            return self._opaque_boolean(expr, defined=True)
        return self._opaque_boolean(expr)

    def _connective(self, args: Sequence[Any], *, stop: bool) -> Meaning:
        """`and` (stop=False) and `or` (stop=True): an argument is evaluated if none before it was `stop`."""
        meanings = [self.boolean(arg) for arg in args]
        terms = self.terms
        defined: list[Any] = []
        passed: list[Any] = []
        for meaning in meanings:
            for condition in meaning.defined:
                reached = terms.conjunction([terms.negation(p) if stop else p for p in passed])
                defined.append(terms.implication(reached, condition))
            passed.append(meaning.value)
        join = terms.disjunction if stop else terms.conjunction
        return Meaning(join(passed), tuple(defined))

    def _choice(self, condition: Meaning, a: Meaning, b: Meaning) -> Meaning:
        terms = self.terms
        a_defined = terms.implication(condition.value, terms.conjunction(a.defined))
        b_defined = terms.disjunction((condition.value, terms.conjunction(b.defined)))
        return Meaning(terms.choose(condition.value, a.value, b.value), (*condition.defined, a_defined, b_defined))

    def _relation(self, expr: Relational) -> Meaning:
        left, right = expr.args
        try:
            a, b = self.integer(left), self.integer(right)
        except NotInteger:
            return self._opaque_relation(expr)
        return Meaning(_COMPARE[type(expr)](self.terms, a.value, b.value), a.defined + b.defined)

    def _opaque_relation(self, expr: Relational) -> Meaning:
        """a > b is b < a and a != b is not a == b, of floats too; a >= b is not `not a < b`: there is NaN."""
        left, right = expr.args
        if isinstance(expr, sympy.Gt | sympy.Ge):
            left, right = right, left
        if isinstance(expr, sympy.Eq | sympy.Ne):
            equal = self._opaque_boolean(frozenset((left, right)))
            return equal if isinstance(expr, sympy.Eq) else equal._replace(value=self.terms.negation(equal.value))
        return self._opaque_boolean(("<" if isinstance(expr, sympy.Gt | sympy.Lt) else "<=", left, right))

    def _opaque_boolean(self, key: Any, *, defined: bool = False) -> Meaning:
        return self._opaque(key, self.terms.boolean_symbol, defined)

    # ---- integers

    def integer(self, expr: Expr) -> Meaning:
        """Raises NotInteger for what may be a float."""
        known = self._integers.get(expr)
        if known is None:
            known = self._integers[expr] = self._integer(expr)
        return known

    def _integer(self, expr: Expr) -> Meaning:
        if expr.is_Integer:
            return Meaning(self.terms.integer(int(expr)))
        rule = RULES.get(type(expr))
        if rule is not None:
            return rule(self, expr)
        if expr.is_integer is not True or expr.is_Number:
            raise NotInteger(expr)
        if isinstance(expr, Symbol):
            self.symbols[expr] = value = self.terms.integer_symbol(self._name(expr))
            return Meaning(value)
        return self.opaque_integer(expr)

    def _name(self, symbol: Symbol) -> str:
        """Symbols of one name, told apart by their assumptions, are different unknowns."""
        if self.readable and all(symbol.name != known.name for known in self.symbols):
            return str(symbol.name)
        return f"{symbol.name}!{len(self.symbols)}"

    def opaque_integer(self, expr: Expr) -> Meaning:
        """An unknown integer, the same for the same expression."""
        return self._opaque(expr, self.terms.integer_symbol, False)

    def _opaque(self, key: Any, make: Callable[[str], Any], defined: bool) -> Meaning:
        known = self.opaque.get(key)
        if known is None:
            number = len(self.opaque)
            conditions = () if defined else (self.terms.boolean_symbol(f"defined!{number}"),)
            known = self.opaque[key] = Meaning(make(f"opaque!{number}"), conditions)
        return known

    def floor_div(self, a: Any, b: Any, divisor: Expr) -> Any:
        """z3's division is Euclidean: the floor for b > 0, and a // b == -a // -b. `divisor` is what b stands for."""
        terms = self.terms
        if self.bounds.is_positive(divisor):
            return terms.euclidean_div(a, b)
        turned = terms.euclidean_div(terms.neg(a), terms.neg(b))
        return terms.choose(terms.lt(terms.integer(0), b), terms.euclidean_div(a, b), turned)

    def modulo(self, a: Any, b: Any, divisor: Expr) -> Any:
        """z3's modulo is Python's for b > 0; a % b == -(-a % -b). For a symbolic divisor it is computed from the division."""
        terms = self.terms
        if not divisor.is_Integer:
            return terms.sub(a, terms.mul((b, self.floor_div(a, b, divisor))))
        if divisor.is_positive:
            return terms.euclidean_mod(a, b)
        return terms.neg(terms.euclidean_mod(terms.neg(a), terms.neg(b)))

    def nonzero(self, b: Any) -> Any:
        return self.terms.negation(self.terms.eq(b, self.terms.integer(0)))


_COMPARE: dict[type, Callable[[Terms, Any, Any], Any]] = {
    sympy.Eq: lambda terms, a, b: terms.eq(a, b),
    sympy.Ne: lambda terms, a, b: terms.negation(terms.eq(a, b)),
    sympy.Le: lambda terms, a, b: terms.le(a, b),
    sympy.Lt: lambda terms, a, b: terms.lt(a, b),
    sympy.Ge: lambda terms, a, b: terms.le(b, a),
    sympy.Gt: lambda terms, a, b: terms.lt(b, a),
}


def _gather(translator: Translator, args: Sequence[Expr]) -> tuple[list[Any], tuple[Any, ...]]:
    meanings = [translator.integer(arg) for arg in args]
    return [m.value for m in meanings], tuple(condition for m in meanings for condition in m.defined)


@translates(sympy.Add)
def _sum(translator: Translator, expr: Expr) -> Meaning:
    values, defined = _gather(translator, expr.args)
    return Meaning(translator.terms.add(values), defined)


@translates(sympy.Mul)
def _product(translator: Translator, expr: Expr) -> Meaning:
    values, defined = _gather(translator, expr.args)
    return Meaning(translator.terms.mul(values), defined)


@translates(FloorDiv)
def _floor_division(translator: Translator, expr: Expr) -> Meaning:
    return _division(translator, expr, translator.floor_div)


@translates(PythonMod, sympy.Mod)
def _remainder(translator: Translator, expr: Expr) -> Meaning:
    return _division(translator, expr, translator.modulo)


def _division(translator: Translator, expr: Expr, divide: Callable[[Any, Any, Expr], Any]) -> Meaning:
    a, b = map(translator.integer, expr.args)
    divisor = expr.args[1]
    return Meaning(divide(a.value, b.value, divisor), (*a.defined, *b.defined, translator.nonzero(b.value)))


@translates(Max, sympy.Max)
def _maximum(translator: Translator, expr: Expr) -> Meaning:
    (value, *rest), defined = _gather(translator, expr.args)
    for other in rest:
        value = translator.terms.choose(translator.terms.le(other, value), value, other)
    return Meaning(value, defined)


@translates(Min, sympy.Min)
def _minimum(translator: Translator, expr: Expr) -> Meaning:
    (value, *rest), defined = _gather(translator, expr.args)
    for other in rest:
        value = translator.terms.choose(translator.terms.le(value, other), value, other)
    return Meaning(value, defined)


@translates(sympy.Abs)
def _absolute(translator: Translator, expr: Expr) -> Meaning:
    meaning, terms = translator.integer(expr.args[0]), translator.terms
    nonnegative = terms.le(terms.integer(0), meaning.value)
    return Meaning(terms.choose(nonnegative, meaning.value, terms.neg(meaning.value)), meaning.defined)


@translates(Where)
def _where(translator: Translator, expr: Expr) -> Meaning:
    condition, a, b = expr.args
    return translator._choice(translator.boolean(condition), translator.integer(a), translator.integer(b))
