"""Translation of bit operations, shifts and powers.

With a constant operand, bit operations become integer arithmetic. `x & y` of two unknowns becomes a new unknown, with axioms
that always hold, and with its bits spelled out if the facts bound x and y; `|` and `^` are computed from it. A shift or power
becomes a case distinction over the exponent up to a limit; beyond it, it is opaque.

Values of type `Any` are z3 terms of integers, or of booleans where a name says so.
"""

from collections.abc import Callable
from typing import Any

import sympy
from sympy import Expr

from shapes.ranges import INF
from shapes.solver.translate import Meaning, NotInteger, Translator, translates
from shapes.sympy_functions import BitAnd, BitOr, BitXor, LShift, Pow, RShift

MAX_BITS = 16  # of each of two unknown operands, if the bits of their `&` are spelled out
MAX_MASK_BITS = 64  # of a constant operand, if its `&` becomes integer arithmetic
MAX_SHIFT = 32  # in bits: the largest shift that is a case of its own
MAX_EXPONENT = 16  # the largest exponent that is a case of its own


@translates(BitAnd)
def _and(translator: Translator, expr: Expr) -> Meaning:
    a, b, common = _bitwise_and(translator, expr)
    return Meaning(common, a.defined + b.defined)


@translates(BitOr)
def _or(translator: Translator, expr: Expr) -> Meaning:
    """x | y == x + y - (x & y)"""
    (a, b, common), terms = _bitwise_and(translator, expr), translator.terms
    return Meaning(terms.sub(terms.add((a.value, b.value)), common), a.defined + b.defined)


@translates(BitXor)
def _xor(translator: Translator, expr: Expr) -> Meaning:
    """x ^ y == x + y - 2*(x & y)"""
    (a, b, common), terms = _bitwise_and(translator, expr), translator.terms
    return Meaning(terms.sub(terms.add((a.value, b.value)), terms.add((common, common))), a.defined + b.defined)


def _bitwise_and(translator: Translator, expr: Expr) -> tuple[Meaning, Meaning, Any]:
    """The operands of `&`, `|` or `^`, and the value of their `&`."""
    a, b = map(translator.integer, expr.args)
    left, right = expr.args  # these SymPy functions put a constant first
    if left.is_Integer and int(left).bit_length() <= MAX_MASK_BITS:
        return a, b, _masked(translator, b.value, int(left))
    key = BitAnd(left, right)
    if key not in translator.opaque:
        common = translator.opaque_integer(key).value
        _add_axioms_of_and(translator, common, a.value, b.value)
        _add_axioms_of_bits(translator, common, (left, right), (a.value, b.value))
    return a, b, translator.opaque[key].value


def _masked(translator: Translator, value: Any, mask: int) -> Any:
    """value & mask, for every integer: two's complement has no end, and neither have // and %."""
    terms = translator.terms
    if mask < 0:  # x & m == x - (x & ~m)
        return terms.sub(value, _masked(translator, value, ~mask))
    runs, low = [terms.integer(0)], 0
    while mask >> low:
        if not (mask >> low) & 1:
            low += 1
            continue
        high = low
        while (mask >> high) & 1:
            high += 1
        runs.append(_run(translator, value, low, high))
        low = high
    return terms.add(runs)


def _run(translator: Translator, value: Any, low: int, high: int) -> Any:
    """The bits low to high - 1 of the value, in place: x % 2**high - x % 2**low."""
    terms = translator.terms
    upper = terms.euclidean_mod(value, terms.integer(1 << high))
    return terms.sub(upper, terms.euclidean_mod(value, terms.integer(1 << low)))


def _add_axioms_of_and(translator: Translator, common: Any, a: Any, b: Any) -> None:
    """What holds of common = x & y for all integers: 0 <= x & y <= x for x >= 0; x & y <= min(x, y) < 0 for both negative."""
    terms, zero = translator.terms, translator.terms.integer(0)
    negative_a, negative_b = terms.lt(a, zero), terms.lt(b, zero)
    both_negative = terms.conjunction((negative_a, negative_b))
    translator.add_axiom(terms.eq(both_negative, terms.lt(common, zero)))
    translator.add_axiom(terms.disjunction((terms.negation(both_negative), terms.le(common, a))))
    translator.add_axiom(terms.disjunction((terms.negation(both_negative), terms.le(common, b))))
    translator.add_axiom(terms.disjunction((negative_a, terms.le(common, a))))
    translator.add_axiom(terms.disjunction((negative_b, terms.le(common, b))))


def _add_axioms_of_bits(translator: Translator, common: Any, args: tuple[Expr, Expr], values: tuple[Any, Any]) -> None:
    """Says what common = x & y is bit by bit, if the facts bound the operands (`args`, of which `values` are the terms) to few
    enough bits.

    The axiom is conditional on that range: z3's value of an undefined operand (x // y + 100 at y == 0) may lie outside.
    """
    count = max(_bit_length(translator, arg) for arg in args)
    if count > MAX_BITS:
        return
    terms, limit = translator.terms, 1 << int(count)
    inside = [
        condition
        for value in values
        for condition in (terms.le(terms.integer(-limit), value), terms.lt(value, terms.integer(limit)))
    ]
    bits = [[translator.fresh_boolean() for _ in range(int(count) + 1)] for _ in values]
    pairs = [terms.conjunction(pair) for pair in zip(*bits, strict=True)]
    sums = [terms.eq(value, _number(translator, own)) for value, own in zip((*values, common), (*bits, pairs), strict=True)]
    translator.add_axiom(terms.implication(terms.conjunction(inside), terms.conjunction(sums)))


def _number(translator: Translator, bits: list[Any]) -> Any:
    """The number of two's complement bits, the lowest first; the last one is the sign."""
    terms, zero = translator.terms, translator.terms.integer(0)
    weights = [1 << index for index in range(len(bits) - 1)] + [-(1 << (len(bits) - 1))]
    return terms.add([terms.choose(bit, terms.integer(w), zero) for bit, w in zip(bits, weights, strict=True)])


def _bit_length(translator: Translator, arg: Expr) -> float:
    """k such that the facts put the argument in [-2**k, 2**k)."""
    low, high = translator.bounds.interval(arg)
    if low == -INF or high == INF:
        return INF
    return max(int(end).bit_length() for end in (low, high))  # one bit more than needed for low == -2**k


@translates(LShift)
def _left_shift(translator: Translator, expr: Expr) -> Meaning:
    return _shift(translator, expr, lambda value, factor: translator.terms.mul((value, factor)))


@translates(RShift)
def _right_shift(translator: Translator, expr: Expr) -> Meaning:
    return _shift(translator, expr, translator.terms.euclidean_div)


def _shift(translator: Translator, expr: Expr, scale: Callable[[Any, Any], Any]) -> Meaning:
    """The shift of a by b bits: `scale(a, 2**b)`. Python raises for b < 0, and may raise MemoryError for a huge b."""
    a, b = map(translator.integer, expr.args)
    terms = translator.terms
    unknown = translator.opaque_integer(expr)
    in_range = terms.le(b.value, terms.integer(MAX_SHIFT))
    value = _case_by_case(translator, b.value, MAX_SHIFT, lambda n: scale(a.value, terms.integer(1 << n)), unknown)
    nonnegative = terms.le(terms.integer(0), b.value)
    return Meaning(value, (*a.defined, *b.defined, nonnegative, terms.disjunction((in_range, *unknown.defined))))


def _case_by_case(translator: Translator, value: Any, top: int, case: Callable[[int], Any], unknown: Meaning) -> Any:
    """case(n) for a value n in 0..top, and for any other value the unknown."""
    result = unknown.value
    for n in range(top, -1, -1):
        result = translator.terms.choose(translator.terms.eq(value, translator.terms.integer(n)), case(n), result)
    return result


@translates(Pow, sympy.Pow)
def _power(translator: Translator, expr: Expr) -> Meaning:
    """A product for a constant exponent; by cases for a symbolic one that is never negative."""
    base, exponent = expr.args
    a, terms = translator.integer(base), translator.terms
    if exponent.is_Integer and 0 <= int(exponent) <= MAX_EXPONENT:
        return Meaning(_product(translator, a.value, int(exponent)), a.defined)
    if translator.bounds.interval(exponent)[0] < 0:  # Python gives a float for a negative one
        raise NotInteger(expr)
    b, unknown = translator.integer(exponent), translator.opaque_integer(expr)
    in_range = terms.le(b.value, terms.integer(MAX_EXPONENT))
    defined = (*a.defined, *b.defined, terms.disjunction((in_range, *unknown.defined)))
    value = _case_by_case(translator, b.value, MAX_EXPONENT, lambda n: _product(translator, a.value, n), unknown)
    return Meaning(value, defined)


def _product(translator: Translator, value: Any, times: int) -> Any:
    terms = translator.terms
    return terms.mul([value] * times) if times else terms.integer(1)
