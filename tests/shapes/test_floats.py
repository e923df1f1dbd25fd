"""Float expressions: Python's values to the last bit, and integer relations where they are exact."""

from __future__ import annotations

import itertools
import math
import operator

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from shapes import ShapeEnv
from shapes.evaluation import evaluate
from shapes.math_functions import MATH_FUNCTIONS
from shapes.operations import FLOAT
from tests.shapes.algebra_programs import Named, examples, function_of, ints, sizes

OPERATIONS = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "truediv": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": max,
    "min": min,
}
ROUNDINGS = {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "round": round}
RELATIONS = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}

leaves = st.one_of(
    st.tuples(st.just("size"), st.integers(0, 1)),
    st.tuples(st.just("constant"), st.floats(-8, 8).map(lambda x: x + 0.0)),
    st.tuples(st.just("float"), st.just(0)),
)
floats = st.recursive(leaves, lambda inner: st.tuples(st.sampled_from(list(OPERATIONS)), inner, inner), max_leaves=6)


def run(tree, n, x):
    if tree[0] == "size":
        return float(n[tree[1]])
    if tree[0] == "constant":
        return tree[1]
    if tree[0] == "float":
        return x
    return float(OPERATIONS[tree[0]](run(tree[1], n, x), run(tree[2], n, x)))


def build(env, tree, n, x):
    if tree[0] == "size":
        return env.algebra.to_float(n[tree[1]])
    if tree[0] == "constant":
        return env.algebra.float_constant(tree[1])
    if tree[0] == "float":
        return x
    return env.algebra.float_operation(tree[0], build(env, tree[1], n, x), build(env, tree[2], n, x))


def same(a, b) -> bool:
    return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))


def attempt(function, *args):
    try:
        return function(*args)
    except (ZeroDivisionError, OverflowError, ValueError):
        return None


pairs = st.lists(st.integers(2, 200), min_size=2, max_size=2)
numbers = st.floats(-100, 100)


@given(floats, pairs, numbers, pairs, numbers)
@examples(100)
def test_floats_compute_as_python_does(tree, hints, hint, others, other) -> None:
    expected = attempt(run, tree, hints, hint)
    assume(expected is not None)
    env = ShapeEnv(duck_shape=False)
    n, x = sizes(env, hints), env.create_float(hint, Named("x"))
    expr = attempt(build, env, tree, n, x)
    assume(expr is not None)
    assert same(expr.hint, expected)
    low, high = env.facts.float_range(expr)
    for sizes_now, x_now in ((hints, hint), (others, other)):
        value = attempt(run, tree, sizes_now, x_now)
        if value is None:
            continue
        values = {n[0].sympy: sizes_now[0], n[1].sympy: sizes_now[1], x.sympy: x_now}
        assert same(evaluate(expr.sympy, values), value)
        assert same(function_of(expr, [*n, x])(*sizes_now, x_now), value)
        assert value != value or low <= value <= high


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 7.25, 1e300, -1e-300, 5e-324, math.inf, -math.inf, math.nan]
OTHER_ARGUMENTS = {"float", "int_truediv", "round_digits", "where"}  # than floats


@pytest.mark.parametrize("name", [name for name in FLOAT if name not in OTHER_ARGUMENTS])
def test_every_operation_is_pythons_for_special_values_too(name) -> None:
    python = FLOAT[name].python
    unary = name in ("neg", "abs") or name in MATH_FUNCTIONS
    env = ShapeEnv()
    symbols = [env.create_float(hint, Named(label)) for hint, label in ((1.0, "x"), (0.5, "y"))][: 1 if unary else 2]
    expr = env.algebra.float_operation(name, *symbols)
    printed = function_of(expr, symbols)
    for values in itertools.product(SPECIAL, repeat=len(symbols)):
        expected = attempt(python, *values)
        scope = {symbol.sympy: value for symbol, value in zip(symbols, values, strict=True)}
        for value in (attempt(evaluate, expr.sympy, scope), attempt(printed, *values)):
            assert value == expected if not isinstance(expected, float) else same(value, expected), values
        if isinstance(expected, float):
            folded = env.algebra.float_operation(name, *map(env.algebra.float_constant, values))
            assert same(folded.const, expected), values


@pytest.mark.parametrize("op", list(RELATIONS))
def test_relations_and_their_negations_are_pythons_for_special_values_too(op) -> None:
    env = ShapeEnv()
    symbols = [env.create_float(hint, Named(label)) for hint, label in ((1.0, "x"), (0.5, "y"))]
    relation = env.algebra.float_relation(op, *symbols)
    holds, fails = function_of(relation, symbols), function_of(~relation, symbols)
    for values in itertools.product(SPECIAL, repeat=2):
        assert holds(*values) is RELATIONS[op](*values)
        assert fails(*values) is not RELATIONS[op](*values)


@given(st.sampled_from(list(ROUNDINGS)), floats, pairs, pairs)
@examples(60)
def test_roundings_compute_as_python_does(kind, tree, hints, others) -> None:
    assume(attempt(run, tree, hints, 0.5) is not None)
    env = ShapeEnv(duck_shape=False)
    n, x = sizes(env, hints), env.create_float(0.5, Named("x"))
    expr = attempt(build, env, tree, n, x)
    assume(expr is not None)
    rounded = attempt(env.algebra.rounded, kind, expr)
    assume(rounded is not None)
    for sizes_now in (hints, others):
        value = attempt(run, tree, sizes_now, 0.5)
        whole = None if value is None else attempt(ROUNDINGS[kind], value)
        if whole is not None:
            assert function_of(rounded, [*n, x])(*sizes_now, 0.5) == whole
            low, high = env.bounds(rounded)
            assert low <= whole <= high


@given(st.sampled_from(list(RELATIONS)), st.integers(-(2**60), 2**60), st.floats(-1e20, 1e20), st.booleans())
@examples(100)
def test_a_float_of_an_int_against_a_constant_is_exact(op, hint, constant, swapped) -> None:
    env = ShapeEnv()
    (n,) = symbols = ints(env, [hint])
    x, c = env.algebra.to_float(n), env.algebra.float_constant(constant)
    relation = env.algebra.float_relation(op, c, x) if swapped else env.algebra.float_relation(op, x, c)
    for value in (hint, math.floor(constant), math.ceil(constant), 2**53 + 1, -(2**53) - 1, 0):
        a, b = (constant, float(value)) if swapped else (float(value), constant)
        truth = RELATIONS[op](a, b)
        if relation.const is not None:
            assert relation.const == truth
        else:
            assert function_of(relation, symbols)(value) == truth


def test_not_less_is_not_greater_or_equal_for_nan() -> None:
    env = ShapeEnv()
    x = env.create_float(1.0, Named("x"))
    less = env.algebra.float_relation("lt", x, env.algebra.float_constant(2.0))
    assert env.evaluate_expr(less)
    assert env.evaluate_expr(~less) is False
    negated = function_of(~less, [x])
    assert negated(float("nan")) is True and negated(3.0) is True and negated(1.0) is False


@pytest.mark.parametrize("op", RELATIONS)
def test_no_float_compares_with_nan(op: str) -> None:
    env = ShapeEnv()
    x, nan = env.create_float(1.0, Named("x")), env.algebra.float_constant(math.nan)
    for pair in ((x, nan), (nan, x)):
        assert env.algebra.float_relation(op, *pair).const is (op == "ne")


def test_the_value_that_real_numbers_get_wrong() -> None:
    env = ShapeEnv(duck_shape=False)
    (n,) = sizes(env, [49])
    one = env.algebra.float_constant(1.0)
    inverse = env.algebra.float_operation("int_truediv", env.algebra.one, n)
    product = env.algebra.float_operation("mul", inverse, env.algebra.to_float(n))
    assert product.hint != 1.0
    assert env.evaluate_expr(env.algebra.float_relation("eq", product, one)) is False
    assert any("1 / s[0] * float(s[0])" in guard.readable for guard in env.produce_guards())


def test_a_scaled_size_keeps_its_bounds() -> None:
    env = ShapeEnv()
    a = env.create_size(9, Named("a"))
    scaled = env.algebra.float_operation("mul", env.algebra.to_float(a), env.algebra.float_constant(1.5))
    assert env.bounds(env.algebra.rounded("floor", scaled)) == (3, float("inf"))
    assert env.statically_known(env.algebra.rounded("floor", scaled) > 1) is True
    half = env.algebra.float_operation("int_truediv", a, env.algebra.integer(2))
    assert env.facts.float_range(half) == (1.0, float("inf"))


def test_complex_results_are_refused() -> None:
    env = ShapeEnv()
    x = env.create_float(-2.0, Named("x"))
    with pytest.raises(ValueError, match="complex"):
        env.algebra.float_operation("pow", x, env.algebra.float_constant(0.5))
