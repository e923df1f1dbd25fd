"""The algebra computes what Python computes: values, hints, ranges, and the SymPy form."""

from __future__ import annotations

import operator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from shapes import ShapeEnv
from shapes.conversion import SYMPY_FUNCTIONS
from shapes.operations import FLOAT, INTEGER
from shapes.simplify import LAWS
from tests.shapes.algebra_programs import at, build, examples, ints, run, sizes, trees

SIZES = st.lists(st.integers(2, 40), min_size=3, max_size=3, unique=True)
INTS = st.lists(st.integers(-40, 40), min_size=3, max_size=3)


def value_of(tree, values):
    try:
        return run(tree, values)
    except ZeroDivisionError:
        return None


@given(trees(3), SIZES, st.lists(SIZES, min_size=4, max_size=4))
@examples(150)
def test_sizes_compute_as_python_does(tree, hints, others) -> None:
    expected = value_of(tree, hints)
    assume(expected is not None)
    env = ShapeEnv(duck_shape=False)
    symbols = sizes(env, hints)
    try:
        expr = build(env, tree, symbols)
    except ZeroDivisionError:
        assume(False)
    assert expr.hint == expected
    check_everywhere(env, tree, expr, symbols, [hints, *others])


@given(trees(3), INTS, st.lists(INTS, min_size=4, max_size=4))
@examples(150)
def test_ints_of_any_sign_compute_as_python_does(tree, hints, others) -> None:
    assume(value_of(tree, hints) is not None)
    env = ShapeEnv()
    symbols = ints(env, hints)
    try:
        expr = build(env, tree, symbols)
    except ZeroDivisionError:  # a part that Python does not reach, under `if`
        assume(False)
    assert expr.hint == value_of(tree, hints)
    check_everywhere(env, tree, expr, symbols, [hints, *others])


def check_everywhere(env, tree, expr, symbols, all_values) -> None:
    low, high = env.bounds(expr)
    for values in all_values:
        expected = value_of(tree, values)
        if expected is None:
            continue
        assert at(expr, symbols, values) == expected
        assert low <= expected <= high
    assert env.algebra.from_sympy(expr.sympy) is expr or same_everywhere(env, expr, symbols, all_values)


def same_everywhere(env, expr, symbols, all_values) -> bool:
    """A SymPy form that reads back as another expression has the same values."""
    again = env.algebra.from_sympy(expr.sympy)
    for values in all_values:
        try:
            if at(again, symbols, values) != at(expr, symbols, values):
                return False
        except ZeroDivisionError:
            continue
    return True


RELATIONS = ("eq", "ne", "lt", "le", "gt", "ge")


@given(st.sampled_from(RELATIONS), trees(2), trees(2), st.lists(SIZES, min_size=6, max_size=6))
@examples(125)
def test_relations_and_static_decisions_agree_with_python(op, left, right, all_values) -> None:
    env = ShapeEnv(duck_shape=False)
    symbols = sizes(env, all_values[0][:2])
    try:
        relation = env.algebra.relation(op, build(env, left, symbols), build(env, right, symbols))
    except ZeroDivisionError:
        assume(False)
    known = env.statically_known(relation)
    for values in all_values:
        a, b = value_of(left, values), value_of(right, values)
        if a is None or b is None:
            continue
        truth = getattr(operator, op)(a, b)
        assert at(relation, symbols, values[:2]) == truth
        assert at(~relation, symbols, values[:2]) == (not truth)
        assert known is None or known == truth


def test_equal_polynomials_are_one_object() -> None:
    env = ShapeEnv(duck_shape=False)
    a, b, c = sizes(env, [3, 5, 7])
    assert (a + b) * (a - b) is a * a - b * b
    assert (a + 1) ** 3 is a**3 + 3 * a * a + 3 * a + 1
    assert (a * b * c) // (b * c) is a
    assert (a * b + a) // a is b + 1
    assert (a - 1) // 2 + 1 is (a + 1) // 2
    assert (a // 2) // 3 is a // 6
    assert (6 * a + 3) // 3 is 2 * a + 1
    assert (a * b) % b is env.algebra.zero
    assert (a + 8) % 4 is a % 4
    assert (a % 4 + 4 * b) % 4 is a % 4
    assert (a % 4) // 4 is env.algebra.zero
    assert (2 * a) % (2 * b) is 2 * (a % b)
    assert env.algebra.bitwise("bitand", a, env.algebra.integer(7)) is a % 8
    assert env.algebra.maximum(a, a + b) is a + b
    assert env.algebra.minimum(a, env.algebra.one) is env.algebra.one


def test_division_by_a_larger_size_is_zero() -> None:
    env = ShapeEnv(duck_shape=False)
    a, b = sizes(env, [3, 5])
    assert a // (a + b) is env.algebra.zero
    assert a % (a * b) is a


def test_huge_products_stay_opaque_but_right() -> None:
    env = ShapeEnv(duck_shape=False)
    symbols = sizes(env, [3, 5, 7])
    a, b, c = symbols
    expr = a + b * c + 1
    for _ in range(6):
        expr = expr * (expr + 1)
    value = 3 + 5 * 7 + 1
    for _ in range(6):
        value = value * (value + 1)
    assert expr.hint == value
    assert len(expr.terms) <= 256
    low, high = env.bounds(expr)
    assert low <= value <= high


def test_division_by_zero_raises_as_python_does() -> None:
    env = ShapeEnv()
    (n,) = ints(env, [5])
    with pytest.raises(ZeroDivisionError):
        n // 0
    with pytest.raises(ZeroDivisionError):
        n % (n - n)


def test_negative_shift_counts_and_powers_raise() -> None:
    env = ShapeEnv()
    (n,) = ints(env, [5])
    with pytest.raises(ValueError, match="negative shift count"):
        env.algebra.bitwise("lshift", n, env.algebra.integer(-1))
    with pytest.raises(ValueError, match="negative power"):
        n**-1


def test_every_law_is_named_and_tried() -> None:
    for kind, laws in LAWS.items():
        for each in laws:
            assert each.statement, kind


def test_every_operation_can_be_read_back_from_sympy() -> None:
    classes = {op.sympy for op in (*INTEGER.values(), *FLOAT.values()) if isinstance(op.sympy, type)}
    assert classes <= set(SYMPY_FUNCTIONS)


def test_a_negative_divisor_is_exact() -> None:
    env = ShapeEnv()
    (n,) = symbols = ints(env, [7])
    for expr, python in ((n // -3, lambda v: v // -3), (n % -3, lambda v: v % -3), (-n // 3, lambda v: -v // 3)):
        for value in range(-20, 20):
            assert at(expr, symbols, [value]) == python(value)


def test_symbols_are_listed_in_order_of_creation() -> None:
    env = ShapeEnv(duck_shape=False)
    a, b, c = sizes(env, [3, 5, 7])
    expr = c // (b + 1) + env.algebra.maximum(a, c)
    assert [symbol.name for symbol in env.algebra.symbols(expr)] == ["s0", "s1", "s2"]
