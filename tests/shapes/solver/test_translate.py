"""Every translation against brute force: at each point z3 and Python give one value, or both none."""

import itertools

import pytest
import sympy

from shapes import sympy_functions as f
from shapes.evaluation import evaluate
from shapes.solver import bits
from shapes.solver.bounds import Bounds
from shapes.solver.problem import Assumption, Problem
from shapes.solver.terms import terms
from shapes.solver.translate import RULES, NotInteger, Translator
from tests.shapes.expressions import RAISED, X, Y, Z, outcome

RANGE = range(-5, 6)
WIDE = [-70, -33, -8, -1, 0, 1, 7, 31, 64, 100]
SMALL = [X >= -8, X <= 8, Y >= -8, Y <= 8]
UNSIGNED = [Y >= 0]


def agree(expr, points, facts=()):
    """At every point z3 knows the value that Python computes, and that there is none where Python raises."""
    problem = Problem(facts)
    for values in points:
        at = [Assumption(sympy.Eq(symbol, value)) for symbol, value in values.items()]
        expected = outcome(evaluate, expr, values)
        if expected is RAISED:
            for anything in (sympy.Ge(expr, 0, evaluate=False), sympy.Lt(expr, 0, evaluate=False)):
                assert problem.ask([*at, Assumption(anything)]) == "unsat", (expr, values)
        else:
            value = int(expected[1])
            assert problem.ask([*at, Assumption(sympy.Eq(expr, value), negated=True)]) == "unsat", (expr, values, value)
            assert problem.ask([*at, Assumption(sympy.Ne(expr, value), negated=False)]) == "unsat", (
                expr,
                values,
                value,
            )
            assert problem.ask([*at, Assumption(sympy.Eq(expr, value))]) == "sat", (expr, values, value)


def grid(*symbols, over=None):
    return [dict(zip(symbols, point)) for point in itertools.product(over or RANGE, repeat=len(symbols))]


UNARY = [
    -X, 3 * X - 7, X**2, X**3 + X, sympy.Abs(X), f.RShift(X, 2), f.LShift(X, 3), f.Pow(X, sympy.Integer(4)),
    *(f.FloorDiv(X, d) for d in (-3, -1, 2, 5)), *(f.PythonMod(X, d) for d in (-4, 2, 7)), sympy.Mod(X, 3),
    *(function(X, mask) for function in (f.BitAnd, f.BitOr, f.BitXor) for mask in (-6, -1, 1, 5, 7, 0b1101, 24)),
    f.FloorDiv(7, X), f.PythonMod(-7, X), f.FloorDiv(f.PythonMod(X, 5), f.PythonMod(X, 3)),
    f.LShift(3, X), f.RShift(-100, X), f.RShift(X, f.Max(X, 0)),
]  # fmt: skip
BINARY = [
    X * Y, X * Y * Y - 2 * X, f.FloorDiv(X, Y), f.PythonMod(X, Y), f.FloorDiv(X * X, Y - 1), f.Max(X, Y), f.Min(X, Y),
    f.Max(X, Y, 2), f.Min(X, -Y, 2), sympy.Max(X, Y), sympy.Min(X, Y, evaluate=False), f.LShift(X, Y), f.RShift(X, Y),
    f.FloorDiv(X, f.FloorDiv(Y, X) + 20), f.FloorDiv(f.FloorDiv(Y, X), 3),
    f.Where(f.FloorDiv(7, Y) > 1, X, 3),
    f.Where(X < Y, X, f.FloorDiv(X, Y)), f.Where(sympy.Or(sympy.Eq(Y, 0), f.FloorDiv(X, Y) > 1), X, Y),
]  # fmt: skip


@pytest.mark.parametrize("expr", UNARY, ids=str)
def test_terms_of_one_symbol(expr):
    agree(expr, grid(X, over=WIDE if not expr.has(f.LShift, f.RShift) else [*RANGE, 20, -40]))


@pytest.mark.parametrize("expr", BINARY, ids=str)
def test_terms_of_two_symbols(expr):
    agree(expr, grid(X, Y))


@pytest.mark.parametrize("divisor", [f.FloorDiv, f.PythonMod])
def test_division_by_what_the_facts_make_positive(divisor):
    points = [values for values in grid(X, Y) if values[Y] >= 1]
    agree(divisor(X, Y), points, [Y >= 1])
    agree(divisor(X, Y), [values for values in grid(X, Y) if values[Y] <= -1], [Y <= -1])


def between(low, high):
    return [X >= low[0], X <= high[0], Y >= low[1], Y <= high[1]]


@pytest.mark.parametrize("cls", [f.BitAnd, f.BitOr, f.BitXor])
def test_bits_of_two_symbols_in_the_range_of_the_facts(cls):
    agree(cls(X, Y), grid(X, Y, over=[-8, -7, -4, -1, 0, 1, 3, 6, 7, 8]), SMALL)
    agree(cls(X, X + Y), grid(X, Y, over=[-2, -1, 0, 3]), SMALL)
    narrow, wide = [0, 2, 3], [0, 1, 5, 64, 100]
    agree(cls(X, Y), [{X: x, Y: y} for x in wide for y in narrow], between((0, 0), (100, 3)))
    agree(cls(X, Y), [{X: x, Y: y} for x in narrow for y in wide], between((0, 0), (3, 100)))
    agree(cls(X, Y), grid(X, Y, over=[-8, -7, -5, -1, 0]), between((-8, -8), (0, 0)))
    agree(cls(X, Y), grid(X, Y, over=[-9, -7, -5, -3]), between((-9, -9), (-3, -3)))


@pytest.mark.parametrize("facts", [[X >= 0, Y >= 0], [X <= 8, Y <= 8], [X >= 0, X <= 8]])
def test_bits_of_symbols_bounded_on_one_side_are_unknown(facts):
    at = [Assumption(sympy.Eq(X, 5)), Assumption(sympy.Eq(Y, 3))]
    assert Problem(facts).ask([*at, Assumption(sympy.Eq(f.BitAnd(X, Y), 2))]) == "sat"


LAWS_OF_AND = [
    ([X >= 0], f.BitAnd(X, Y) >= 0), ([Y >= 0], f.BitAnd(X, Y) >= 0), ([X < 0, Y < 0], f.BitAnd(X, Y) < 0),
    ([X >= 0], f.BitAnd(X, Y) <= X), ([Y >= 0], f.BitAnd(X, Y) <= Y), ([X < 0, Y < 0], f.BitAnd(X, Y) <= X),
    ([X < 0, Y < 0], f.BitAnd(X, Y) <= Y), ([f.BitAnd(X, Y) < 0], X < 0), ([f.BitAnd(X, Y) < 0], Y < 0),
    ([], sympy.Eq(f.BitOr(X, Y) + f.BitAnd(X, Y), X + Y)), ([], sympy.Eq(f.BitXor(X, Y), f.BitOr(X, Y) - f.BitAnd(X, Y))),
]  # fmt: skip


@pytest.mark.parametrize(("given", "law"), LAWS_OF_AND, ids=str)
def test_what_is_known_of_bits_of_all_integers(given, law):
    assert Problem().ask([*map(Assumption, given), Assumption(law, negated=True)]) == "unsat"


RAISING = [
    cls(*args)
    for cls in (f.BitAnd, f.BitOr, f.BitXor, f.Max, f.Min, f.LShift, f.RShift)
    for args in ((f.FloorDiv(7, X), Y), (Y, f.FloorDiv(7, X)), (f.FloorDiv(7, X), 5), (5, f.FloorDiv(7, X)))
]


@pytest.mark.parametrize("expr", [*RAISING, f.Pow(f.FloorDiv(7, X), 3), sympy.Abs(f.FloorDiv(7, X))], ids=str)
def test_what_raises_inside_raises_outside(expr):
    agree(expr, [{X: 0, Y: y} for y in (-1, 0, 2)], SMALL)
    agree(f.Pow(X, f.FloorDiv(7, Y)), [{X: 2, Y: 0}], [X >= 0, Y >= 0])
    agree(f.Pow(f.FloorDiv(7, Y), X), [{X: 2, Y: 0}], [X >= 0, Y >= 0])


@pytest.mark.parametrize("cls", [f.BitAnd, f.BitOr, f.BitXor])
def test_bits_of_unbounded_symbols_contradict_no_value(cls):
    """z3 has to be able to give the symbols values that satisfy the bits."""
    problem = Problem()
    for values in grid(X, Y):
        at = [Assumption(sympy.Eq(symbol, value)) for symbol, value in values.items()]
        assert problem.ask([*at, Assumption(sympy.Eq(cls(X, Y), evaluate(cls(X, Y), values)))]) == "sat"


def test_powers_with_an_exponent_that_is_not_negative():
    agree(f.Pow(X, Y), [values for values in grid(X, Y) if values[Y] >= 0], UNSIGNED)
    agree(f.Pow(2, Y), grid(Y, over=range(12)), UNSIGNED)


def test_a_power_that_may_be_a_float_is_opaque():
    for exponent in (Y, sympy.Integer(-1)):
        with pytest.raises(NotInteger):
            Translator(terms(), Bounds()).integer(f.Pow(X, exponent, evaluate=False))


def test_a_constant_power_is_a_product():
    for exponent in (0, 1, 3, bits.MAX_EXPONENT):
        translator = Translator(terms(), Bounds())
        text = translator.integer(f.Pow(X, exponent, evaluate=False)).value.sexpr()
        assert text.count("x!0") == exponent and "ite" not in text and not translator.opaque
    translator = Translator(terms(), Bounds())
    translator.integer(f.Pow(X, bits.MAX_EXPONENT + 1, evaluate=False))
    assert translator.opaque


@pytest.mark.parametrize("mask", [-1, 0, 1])
def test_masks_that_change_all_or_nothing(mask):
    for cls in (f.BitAnd, f.BitOr, f.BitXor):
        agree(cls(sympy.Integer(mask), X, evaluate=False), grid(X))


def test_shifts_and_powers_beyond_the_limit_are_unknown():
    for expr, at in [
        (f.LShift(X, Y), bits.MAX_SHIFT),
        (f.RShift(X, Y), bits.MAX_SHIFT),
        (f.Pow(X, Y), bits.MAX_EXPONENT),
    ]:
        for exponent, status in ((at, "unsat"), (at + 1, "sat")):
            problem = Problem([X >= 1, X <= 3, Y >= 0])
            literals = [Assumption(sympy.Eq(Y, exponent)), Assumption(sympy.Eq(X, 3)), Assumption(sympy.Eq(expr, 5))]
            assert problem.ask(literals) == status, (expr, exponent)
            anything = [Assumption(relation, negated=True) for relation in (sympy.Ge(expr, 0), sympy.Lt(expr, 0))]
            assert problem.ask([*literals[:2], *anything]) == status, (expr, exponent)  # it may raise MemoryError


def test_masks_and_bits_beyond_the_limit_are_unknown():
    wide = f.BitAnd(X, (1 << bits.MAX_MASK_BITS) + 1)
    assert Problem().ask([Assumption(sympy.Eq(X, 1)), Assumption(sympy.Eq(wide, 0))]) == "sat"  # in truth it is 1
    exact = f.BitAnd(X, (1 << (bits.MAX_MASK_BITS - 1)) + 1)
    assert Problem().ask([Assumption(sympy.Eq(X, 1)), Assumption(sympy.Eq(exact, 0))]) == "unsat"
    for top, status in ((1 << bits.MAX_BITS, "unsat"), ((1 << bits.MAX_BITS) + 1, "sat")):
        problem = Problem([X >= 0, Y >= 0, X < top, Y < top])
        at = [Assumption(sympy.Eq(X, 5)), Assumption(sympy.Eq(Y, 3))]
        assert problem.ask([*at, Assumption(sympy.Eq(f.BitAnd(X, Y), 2))]) == status


BOOLEANS = [
    sympy.And(Y > 0, f.FloorDiv(X, Y) >= 1), sympy.Or(sympy.Eq(Y, 0), f.FloorDiv(X, Y) >= 1),
    sympy.Not(sympy.And(X > 0, f.PythonMod(X, Y) > 0, evaluate=False), evaluate=False),
    sympy.Not(sympy.Or(Y < 0, f.PythonMod(X, Y) > 0, evaluate=False), evaluate=False),
    sympy.ITE(f.FloorDiv(7, Y) > 1, X > 0, X < 3),
    sympy.ITE(X > 0, f.FloorDiv(X, Y) >= 1, Y < 3), sympy.ITE(X > 0, Y < 3, f.FloorDiv(X, Y) >= 1),
    sympy.Or(sympy.And(X > 1, f.FloorDiv(Y, X) > 1), f.PythonMod(Y, X - 1) > 0, evaluate=False),
    X <= f.FloorDiv(7, Y), f.FloorDiv(7, Y) <= X,
    sympy.Eq(f.FloorDiv(X, Y), f.PythonMod(Y, X)), sympy.Ne(X, Y), X <= Y, X > Y, X >= 2 * Y, X < Y + 1,
]  # fmt: skip


@pytest.mark.parametrize("expr", BOOLEANS, ids=str)
def test_booleans_hold_where_python_says_true(expr):
    problem = Problem()
    for values in grid(X, Y):
        at = [Assumption(sympy.Eq(symbol, value)) for symbol, value in values.items()]
        holds = outcome(evaluate, expr, values) == ("bool", True, 0)
        assert problem.ask([*at, Assumption(expr)]) == ("sat" if holds else "unsat"), values
        assert problem.ask([*at, Assumption(expr, negated=True)]) == ("unsat" if holds else "sat"), values


def test_floats_are_opaque_and_their_truths_are_kept_apart():
    half = f.TrueDiv(X, 2)
    ask = Problem().ask
    assert ask([Assumption(half < 1), Assumption(half < 2, negated=True)]) == "sat"  # nothing is known of floats
    assert ask([Assumption(half < 1), Assumption(sympy.Gt(1, half), negated=True)]) == "unsat"  # the same statement
    assert ask([Assumption(half < 1), Assumption(half >= 1)]) == "sat"  # NaN is neither
    assert ask([Assumption(sympy.Eq(half, 1)), Assumption(sympy.Ne(1, half))]) == "unsat"
    assert ask([Assumption(sympy.Not(half < 1, evaluate=False)), Assumption(half < 1)]) == "unsat"
    independent = [half < 1, half <= 1, half > 1, sympy.Eq(half, 1), sympy.Eq(half, 2), half < 2, f.TrueDiv(X, 3) < 1]
    for a, b in itertools.permutations(independent, 2):
        assert ask([Assumption(a), Assumption(b)]) == ask([Assumption(a), Assumption(b, negated=True)]) == "sat", (a, b)


@pytest.mark.parametrize("opaque", [f.TrueDiv(X, 2) < 1, sympy.Eq(f.TrueDiv(X, 2), 1), sympy.Xor(X > 1, Y > 1)], ids=str)
def test_what_is_opaque_may_raise(opaque):
    neither = [Assumption(opaque, negated=True), Assumption(sympy.Not(opaque, evaluate=False), negated=True)]
    assert Problem().ask(neither) == "sat"


@pytest.mark.parametrize("constant", [sympy.Float(0.0), sympy.Float(2.0), sympy.oo, sympy.nan])
def test_constants_that_are_no_ints_are_not_integers(constant):
    with pytest.raises(NotInteger):
        Translator(terms(), Bounds()).integer(constant)


def test_no_law_of_the_reals_is_applied_to_floats():
    product = sympy.Eq(f.FloatMul(f.TrueDiv(1, X), X), 1)
    assert evaluate(product, {X: 49}) is False
    assert Problem([X >= 1]).ask([Assumption(product, negated=True)]) == "sat"


def test_a_rounded_float_is_an_unknown_integer():
    rounded = f.TruncToInt(f.TrueDiv(X, 3))
    ask = Problem().ask
    assert ask([Assumption(rounded > 2), Assumption(rounded >= 3, negated=True)]) == "unsat"
    assert ask([Assumption(sympy.Eq(X, 3)), Assumption(sympy.Eq(rounded, 7))]) == "sat"


def test_symbols_of_one_name_are_different_unknowns():
    other, third = sympy.Symbol("x", integer=True, positive=True), sympy.Symbol("x", integer=True, nonzero=True)
    ask = Problem().ask
    assert ask([Assumption(sympy.Eq(X, 3)), Assumption(sympy.Eq(other, 4)), Assumption(sympy.Eq(third, 5))]) == "sat"


def test_a_symbol_that_is_a_boolean_is_true_or_false():
    flag = sympy.Symbol("p")
    ask = Problem().ask
    assert ask([Assumption(flag, negated=True), Assumption(sympy.Not(flag), negated=True)]) == "unsat"


def test_division_by_the_constant_zero_never_holds():
    for cls in (f.FloorDiv, f.PythonMod):
        assert Problem().ask([Assumption(sympy.Ge(cls(X, 0, evaluate=False), 0, evaluate=False))]) == "unsat"


def test_every_integer_function_has_a_translation_or_is_a_rounded_float():
    roundings = {f.FloorToInt, f.CeilToInt, f.TruncToInt, f.RoundToInt}
    integer = {cls for cls in f.FUNCTIONS.values() if issubclass(cls, f.IntegerFunction)} - roundings
    assert integer | {f.Max, f.Min, f.Where, f.Pow} <= set(RULES)


def test_bounds_are_read_from_every_spelling():
    bounds = Bounds([X >= 2, 8 > X, sympy.Ge(Y - 3, 0), sympy.And(Z > 1, Z <= 5), sympy.Ne(X, 3), X + Y < 4])
    assert [bounds.interval(s) for s in (X, Y, Z)] == [(2, 7), (3, float("inf")), (2, 5)]
    assert bounds.interval(X * Z - 1) == (3, 34)
    assert bounds.is_positive(f.FloorDiv(X, 2)) and not bounds.is_positive(f.PythonMod(X, 2))
    assert bounds.interval(f.PythonMod(X, Z)) == (0, 4)
    assert bounds.interval(f.Max(X, Z)) == (2, 7) and bounds.interval(f.Min(X, Z, 3)) == (2, 3)
    assert bounds.interval(f.BitAnd(X, Y)) == (-float("inf"), float("inf"))
    assert Bounds([sympy.Eq(X, 5), sympy.Or(Y > 3, Z > 3)]).interval(X + 1) == (6, 6)
