"""What is decided, reduced and bounded from recorded facts holds for every value that satisfies the facts."""

from __future__ import annotations

import itertools

from hypothesis import assume, given
from hypothesis import strategies as st

from shapes import DimConstraint, DimPolicy, ShapeEnv
from tests.shapes.algebra_programs import Named, build, examples, function_of, ints, trees

SIMPLE = ("+", "-", "*", "//", "%", "max", "min")
RELATIONS = ("eq", "ne", "lt", "le", "gt", "ge")
HIGHEST = 9
relations = st.tuples(st.sampled_from(RELATIONS), trees(3, SIMPLE, 4), trees(3, SIMPLE, 4))


def small_sizes(env: ShapeEnv, hints):
    mark = DimConstraint(max=HIGHEST, strict=False)
    return [env.create_size(h, Named(f"s[{i}]"), DimPolicy.DYNAMIC, mark) for i, h in enumerate(hints)]


def relation(env, symbols, told):
    op, left, right = told
    try:
        return env.algebra.relation(op, build(env, left, symbols), build(env, right, symbols))
    except ZeroDivisionError:
        assume(False)


def value(function, values):
    try:
        return function(*values)
    except ZeroDivisionError:
        return None


def satisfying(env, symbols, domain):
    """Every tuple of values that satisfies all recorded guards."""
    guards = [function_of(guard.expr, symbols) for guard in env.guards]
    tuples = itertools.product(domain, repeat=len(symbols))
    return [values for values in tuples if all(value(guard, values) for guard in guards)]


@given(st.lists(st.integers(2, HIGHEST), min_size=3, max_size=3), st.lists(relations, min_size=1, max_size=5), relations)
@examples(100)
def test_facts_about_sizes(hints, told, asked) -> None:
    env = ShapeEnv()
    symbols = small_sizes(env, hints)
    assert_sound(env, symbols, told, asked, range(2, HIGHEST + 1))


@given(st.lists(st.integers(-4, 4), min_size=3, max_size=3), st.lists(relations, min_size=1, max_size=4), relations)
@examples(100)
def test_facts_about_ints(hints, told, asked) -> None:
    env = ShapeEnv()
    symbols = ints(env, hints)
    assert_sound(env, symbols, told, asked, range(-5, 6))


def assert_sound(env, symbols, told, asked, domain) -> None:
    exprs = []
    for each in told:
        condition = relation(env, symbols, each)
        exprs.append(build(env, each[1], symbols))
        if condition.hint is None:
            continue
        assert env.evaluate_expr(condition) == condition.hint
    question = relation(env, symbols, asked)
    known = env.statically_known(question)
    exprs.append(build(env, asked[2], symbols))
    allowed = satisfying(env, symbols, domain)
    truth = function_of(question, symbols)
    assert known is None or all(value(truth, values) in (None, known) for values in allowed)
    for expr in exprs:
        check_expression(env, expr, symbols, allowed)


def check_expression(env, expr, symbols, allowed) -> None:
    low, high = env.bounds(expr)
    before, after = function_of(expr, symbols), function_of(env.simplify(expr), symbols)
    for values in allowed:
        number = value(before, values)
        if number is not None:
            assert low <= number <= high
            assert value(after, values) == number


def test_bounds_that_meet_are_an_equality() -> None:
    env = ShapeEnv(duck_shape=False)
    a, b, c = (env.create_size(5, Named(name), DimPolicy.DYNAMIC) for name in "abc")
    for condition in (a <= b, a >= b, (a + b).eq(10)):
        assert env.evaluate_expr(condition)
    assert env.simplify(a).const == 5 and env.simplify(b).const == 5
    assert env.statically_known((a * c).eq(5 * c)) is True


def test_an_equality_replaces_the_younger_symbol() -> None:
    env = ShapeEnv(duck_shape=False)
    a, b, c = (env.create_size(hint, Named(name)) for name, hint in (("a", 4), ("b", 8), ("c", 2)))
    assert env.evaluate_expr(b.eq(2 * a))
    assert env.simplify(b + 1) is 2 * a + 1
    assert env.statically_known((b % 2).eq(0)) is True
    assert env.statically_known(b >= 4) is True  # 2 <= a
    assert env.evaluate_expr(a.eq(2 * c))
    assert env.simplify(b) is 4 * c
    assert len(env.guards) == 2


def test_divisibility_undoes_division() -> None:
    env = ShapeEnv()
    a = env.create_size(24, Named("a"))
    assert env.evaluate_expr((a % 8).eq(0))
    assert env.simplify(8 * (a // 8)) is a
    assert env.statically_known((a % 4).eq(0)) is True
    assert env.statically_known(((a + 3) % 4).eq(3)) is True
    assert env.statically_known((3 * a).eq(5)) is False
    assert len(env.guards) == 1


def test_a_bound_decides_what_it_implies() -> None:
    env = ShapeEnv(duck_shape=False)
    a, b = (env.create_size(hint, Named(name)) for name, hint in (("a", 4), ("b", 8)))
    assert env.evaluate_expr(a + 2 <= b)
    for implied in (a < b, a <= b + 5, a * 2 <= 2 * b, a.ne(b), a - 3 < b):
        assert env.statically_known(implied) is True, implied
    assert env.statically_known(a.eq(b)) is False
    assert env.statically_known(a + 3 <= b) is None
    assert len(env.guards) == 1


def test_products_are_compared_by_shifting() -> None:
    env = ShapeEnv(duck_shape=False)
    a, b = (env.create_size(hint, Named(name)) for name, hint in (("a", 4), ("b", 8)))
    for known in (a * a >= a, a * b >= b, a * b * 2 > a + b, (a * b).ne(0), a * b >= 4):
        assert env.statically_known(known) is True, known
    assert env.guards == []


def test_values_that_a_size_does_not_take_move_its_bounds() -> None:
    env = ShapeEnv()
    a = env.create_size(9, Named("a"))
    assert env.evaluate_expr(a.ne(2)) and env.evaluate_expr(a.ne(3))
    assert env.bounds(a)[0] == 4


def test_a_function_is_bounded_by_its_arguments() -> None:
    env = ShapeEnv(duck_shape=False)
    a, b = (env.create_size(hint, Named(name)) for name, hint in (("a", 9), ("b", 5)))
    smaller, larger = env.algebra.minimum(a, b), env.algebra.maximum(a, b)
    known = [
        a >= a // 2,
        a * b >= (a // 2) * b,
        2 * (a // 2) <= a,
        2 * (a // 2) + 1 >= a,
        a - a // 2 >= 1,
        (a + 1) // 2 <= a,
        smaller <= a,
        smaller <= larger,
        larger + 1 > b,
        (a * b) // 4 * 2 <= a * b,
    ]
    for condition in known:
        assert env.statically_known(condition) is True, condition
    assert env.statically_known((a // 2).eq(a)) is False
    assert env.statically_known(a // 2 >= b) is None
