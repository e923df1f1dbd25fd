"""Laws of relations: each gives a simpler condition that holds for the same values."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shapes import ShapeEnv
from shapes.printing import python_source
from shapes.relation_laws import RELATION_LAWS
from tests.shapes.algebra_programs import build, examples, function_of, ints, sizes, trees

# program over two sizes (at least 2) and an int -> how its condition reads
EXAMPLES = {
    "x // n + c >= 0 is x + c*n >= 0, n > 0": [
        (lambda a, b, n: n // 4 >= 3, "12 <= n[0]"),
        (lambda a, b, n: n // 3 - 1 > 0, "6 <= n[0]"),
    ],
    "c - x // n >= 0 is c*n + n - 1 - x >= 0, n > 0": [(lambda a, b, n: n // 4 <= 3, "n[0] <= 15")],
    "x*y + c >= 0 with x > 0 is y >= 0 if 0 <= c < x, and y - 1 >= 0 if -x <= c < 0": [
        (lambda a, b, n: a * b >= a * n, "s[1] >= n[0]"),
        (lambda a, b, n: a * b > a * n, "s[1] > n[0]"),
        (lambda a, b, n: a * n + 1 >= 0, "0 <= n[0]"),
        (lambda a, b, n: a * n - 2 >= 0, "1 <= n[0]"),
    ],
    "x*y == 0 is y == 0 where x is not 0": [
        (lambda a, b, n: (a * b).eq(5 * a), "s[1] == 5"),
        (lambda a, b, n: (a * a * n).ne(0), "n[0] != 0"),
        (lambda a, b, n: (a * b * n).eq(a * b * b), "s[1] == n[0]"),
    ],
    "n * (x // n) == x is x % n == 0": [
        (lambda a, b, n: (4 * (n // 4)).eq(n), "n[0] % 4 == 0"),
        (lambda a, b, n: ((a + n) // 3 * 3).ne(a + n), "(n[0] + s[0]) % 3 != 0"),
    ],
}  # fmt: skip
UNTOUCHED = [
    (lambda a, b, n: a * n + 2 >= 0, "n[0]*s[0] >= -2"),  # n == -1 and a == 2
    (lambda a, b, n: a * n - 3 >= 0, "n[0]*s[0] >= 3"),
    (lambda a, b, n: (n * b).eq(n), "n[0] == n[0]*s[1]"),  # n may be 0
    (lambda a, b, n: n * a >= n * b, "n[0]*s[0] >= n[0]*s[1]"),
]


def made(condition):
    env = ShapeEnv(duck_shape=False)
    symbols = [*sizes(env, [3, 5]), *ints(env, [7])]
    return env, symbols, condition(*symbols)


def text(env, relation):
    return python_source(relation.sympy, {symbol.sympy: symbol.label.name for symbol in env.symbols()})


def test_every_law_has_an_example():
    assert {law.statement for laws in RELATION_LAWS.values() for law in laws} == set(EXAMPLES)


@pytest.mark.parametrize(("condition", "simpler"), [pair for pairs in EXAMPLES.values() for pair in pairs])
def test_a_law_makes_it_simpler_and_says_the_same(condition, simpler):
    env, symbols, relation = made(condition)
    assert text(env, relation) == simpler
    holds = function_of(relation, symbols)
    for values in itertools.product((2, 3, 4, 7), (2, 5, 6), range(-9, 20)):
        told = condition(*(env.algebra.integer(value) for value in values))
        assert holds(*values) == told.const


@pytest.mark.parametrize(("condition", "same"), UNTOUCHED)
def test_what_may_be_zero_or_negative_is_left_alone(condition, same):
    env, _, relation = made(condition)
    assert text(env, relation) == same


terms = st.tuples(st.integers(-4, 4), st.lists(st.integers(0, 2), max_size=2))
polynomials = st.lists(terms, min_size=1, max_size=4)
sides = trees(3, ("+", "-", "*", "//", "%", "max", "min"), 4)
conditions = st.tuples(st.sampled_from(["eq", "ne", "lt", "le", "gt", "ge"]), sides, sides)


@given(polynomials, st.lists(st.integers(0, 2), max_size=2), st.integers(-4, 4), st.sampled_from(["ge", "eq"]), st.booleans())
@examples(150)
def test_relations_of_products_hold_where_they_are_true(polynomial, factor, constant, op, quotients):
    env = ShapeEnv(duck_shape=False)
    symbols = [*sizes(env, [3, 5]), *ints(env, [7])]

    def value(numbers):
        numbers = [number // 3 for number in numbers] if quotients else numbers
        total = 0
        for coefficient, indices in polynomial:
            for index in (*indices, *factor):
                coefficient = numbers[index] * coefficient
            total = total + coefficient
        return total + constant

    relation = env.algebra.relation(op, env.algebra.zero + value(symbols), env.algebra.zero)
    holds = function_of(relation, symbols)
    for values in itertools.product((2, 3, 6), (2, 4, 5), (-4, -1, 0, 1, 3, 8)):
        number = value(values)
        assert holds(*values) == (number >= 0 if op == "ge" else number == 0)


def test_an_equal_count_of_elements_gives_the_size_that_is_missing():
    env = ShapeEnv(duck_shape=False)
    a, b = sizes(env, [3, 5])
    assert env.evaluate_expr((a * b).eq(a * 5))
    assert env.simplify(b).const == 5
    assert [guard.readable for guard in env.produce_guards()] == ["2 <= s[0]", "s[1] == 5"]


def test_a_condition_that_was_said_more_simply_is_not_recorded_twice():
    env = ShapeEnv(duck_shape=False)
    a, b = sizes(env, [3, 5])
    assert env.evaluate_expr((a * b).ne(4))  # a*b >= 4 is known: a*b >= 5
    assert env.evaluate_expr((a * b) >= 5)
    assert len(env.guards) == 1


def test_what_a_condition_was_sharpened_to_is_known_too():
    env = ShapeEnv(duck_shape=False)
    (a,) = sizes(env, [4])
    assert not env.evaluate_expr((a // 2).eq(1))
    assert env.statically_known(a >= 4)


@given(st.lists(st.integers(2, 9), min_size=3, max_size=3), st.lists(conditions, min_size=1, max_size=4))
@examples(100)
def test_what_was_recorded_is_known(hints, told):
    env = ShapeEnv(duck_shape=False)
    symbols = sizes(env, hints)
    for op, left, right in told:
        try:
            env.evaluate_expr(env.algebra.relation(op, build(env, left, symbols), build(env, right, symbols)))
        except ZeroDivisionError:
            continue
    assert all(env.statically_known(guard.expr) for guard in env.guards)
    assert len({guard.expr for guard in env.guards}) == len(env.guards)
