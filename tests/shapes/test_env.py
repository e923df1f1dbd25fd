"""ShapeEnv: which sizes become symbols, how decisions are made, and what is recorded of them."""

from __future__ import annotations

import pytest
import sympy

from shapes import ConstraintViolationError, DataDependent, DimConstraint, DimPolicy, FrozenError, NotAnExpression, ShapeEnv, Why
from tests.shapes.algebra_programs import Named, readable

D = DimPolicy


def env_with(**hints: int) -> tuple[ShapeEnv, list]:
    env = ShapeEnv()
    return env, [env.create_size(hint, Named(name), D.DYNAMIC) for name, hint in hints.items()]


# -- which sizes become symbols


def test_sizes_zero_and_one_are_constants() -> None:
    env = ShapeEnv()
    assert env.create_size(0, Named("a")) == 0
    assert env.create_size(1, Named("b"), D.DYNAMIC) == 1
    assert env.symbols() == []


def test_specialisation_of_zero_and_one_can_be_switched_off_for_an_env_and_for_a_dim() -> None:
    env = ShapeEnv(specialize_zero_one=False)
    a = env.create_size(1, Named("a"))
    assert env.bounds(a) == (0, float("inf")) and a.hint == 1
    assert readable(env) == []
    env = ShapeEnv()
    b = env.create_size(1, Named("b"), specialize_zero_one=False)
    assert env.bounds(b)[0] == 0
    assert env.create_size(1, Named("c")) == 1


def test_duck_shaped_sizes_of_one_value_share_a_symbol() -> None:
    env = ShapeEnv()
    a = env.create_size(8, Named("L['a'].size()[0]"))
    b = env.create_size(8, Named("L['b'].size()[0]"))
    c = env.create_size(9, Named("L['c'].size()[0]"))
    assert a is b and a is not c
    assert readable(env) == [
        "L['b'].size()[0] == L['a'].size()[0]",
        "2 <= L['a'].size()[0]",
        "2 <= L['c'].size()[0]",
    ]


def test_a_size_is_never_unified_with_a_static_one() -> None:
    env = ShapeEnv()
    assert env.create_size(3, Named("channels"), D.STATIC) == 3
    batch = env.create_size(3, Named("batch"))
    assert not isinstance(batch, int)
    assert env.statically_known(batch.eq(3)) is None


def test_duck_shaping_can_be_switched_off_for_an_env_and_for_a_dim() -> None:
    env = ShapeEnv(duck_shape=False)
    assert env.create_size(8, Named("a")) is not env.create_size(8, Named("b"))
    env = ShapeEnv()
    a = env.create_size(8, Named("a"))
    assert env.create_size(8, Named("b"), D.DYNAMIC) is not a
    assert env.create_size(8, Named("c")) is a


def test_one_place_has_one_symbol() -> None:
    env, (a,) = env_with(a=5)
    assert env.create_size(5, Named("a"), D.DYNAMIC) is a
    assert len(env.symbols()) == 1


def test_plain_ints_are_not_specialised_and_not_bounded() -> None:
    env = ShapeEnv()
    n = env.create_int(1, Named("L['n']"))
    m = env.create_int(1, Named("L['m']"))
    assert n is not m
    assert env.bounds(n) == (-float("inf"), float("inf"))
    assert readable(env) == []


# -- decisions


def test_a_decision_by_the_hint_is_recorded_once() -> None:
    env, (a,) = env_with(a=8)
    assert env.evaluate_expr(2 * a >= 16)
    assert env.evaluate_expr(a >= 8)
    assert not env.evaluate_expr(a < 8)
    (guard,) = env.guards
    assert guard.why is Why.BRANCH and str(guard.recorded) == "2*s0 >= 16"
    (text,) = env.produce_guards()
    assert text.readable == "8 <= a" and text.recorded == "2*a >= 16"


def test_what_is_known_without_the_hint_makes_no_guard() -> None:
    env, (a, b) = env_with(a=8, b=5)
    assert env.evaluate_expr(a * b >= 4)
    assert not env.evaluate_expr(a.eq(1))
    assert env.evaluate_expr((a * b // b).eq(a))
    assert env.guards == []


def test_the_user_line_is_asked_for_when_a_guard_is_recorded() -> None:
    lines = iter(["first", "second"])
    env = ShapeEnv(where=lambda: next(lines))
    a = env.create_size(8, Named("a"))
    env.evaluate_expr(a > 3)
    env.evaluate_expr(a > 2)
    env.evaluate_expr(a > 4)
    assert [guard.where for guard in env.guards] == ["first", "second"]


def test_an_int_that_is_used_as_a_constant_is_specialised() -> None:
    env = ShapeEnv()
    n = env.create_int(3, Named("L['n']"))
    assert env.evaluate_int(n + 1) == 4
    assert env.evaluate_int(n) == 3
    assert readable(env) == ["L['n'] == 3"]
    assert env.guards[0].why is Why.SPECIALIZED


def test_a_float_that_is_used_as_a_constant_is_specialised() -> None:
    env = ShapeEnv()
    x = env.create_float(0.25, Named("L['x']"))
    assert env.evaluate_float(x) == 0.25
    assert env.evaluate_float(x) == 0.25
    assert readable(env) == ["L['x'] == 0.25"]


def test_a_nan_is_specialised_to_being_nan() -> None:
    env = ShapeEnv()
    x = env.create_float(float("nan"), Named("x"))
    value = env.evaluate_float(x)
    assert value != value
    (guard,) = env.produce_guards()
    assert eval(guard.readable, {"x": float("nan")}) and not eval(guard.readable, {"x": 1.0})


def test_suppressed_decisions_leave_no_trace() -> None:
    env, (a,) = env_with(a=8)
    with env.suppress_guards():
        assert env.evaluate_expr(a > 3)
        assert env.evaluate_int(a) == 8
    assert env.guards == []
    assert env.statically_known(a > 3) is None


def test_a_frozen_env_decides_what_it_knows_and_refuses_the_rest() -> None:
    env, (a,) = env_with(a=8)
    env.evaluate_expr(a > 3)
    env.freeze()
    assert env.evaluate_expr(a > 2)
    with pytest.raises(FrozenError, match=r"5 <= s0|s0 >= 5"):
        env.evaluate_expr(a > 4)
    assert len(env.guards) == 1


# -- data-dependent values


def test_a_decision_on_data_raises_and_says_what_to_do() -> None:
    env = ShapeEnv()
    u = env.create_unbacked_int()
    with pytest.raises(DataDependent, match="torch._check"):
        env.evaluate_expr(u > 3)
    with pytest.raises(DataDependent):
        env.evaluate_int(u)
    assert env.guard_or_false(u > 3) is False
    assert env.guard_or_true(u > 3) is True
    assert env.guards == []


def test_an_assumption_about_data_is_checked_at_run_time_and_used() -> None:
    env, (a,) = env_with(a=8)
    u = env.create_unbacked_int()
    assert env.assume(u >= 0, "not negative")
    assert env.assume(u <= a)
    assert [str(each.sympy) for each in env.runtime_asserts] == ["u0 >= 0", "s0 >= u0"]
    assert env.evaluate_expr(u > -1)
    assert env.evaluate_expr(u < a + 1)
    assert env.guards == []
    assert env.assume(a > 3)
    assert len(env.guards) == 1 and len(env.runtime_asserts) == 2


def test_all_facts_together_decide_about_data() -> None:
    env = ShapeEnv(specialize_zero_one=False, duck_shape=False)
    n, m, c = (env.create_size(hint, Named(name), D.DYNAMIC) for name, hint in (("n", 3), ("m", 4), ("c", 9)))
    u, v = env.create_unbacked_int(0), env.create_unbacked_int(0)
    env.trust(env.algebra.relation("le", u, n))
    env.trust(env.algebra.relation("le", v, m))
    fits = env.algebra.relation("le", u + v, c)
    assert env.prove(fits) is None and env.prove(env.algebra.negate(fits)) is None
    assert env.evaluate_expr(env.algebra.relation("le", n + m, c))
    assert env.statically_known(fits) is None  # it takes three facts
    assert env.prove(fits) is True and env.statically_known(fits) is True
    assert env.prove(env.algebra.relation("gt", u + v, c)) is False
    assert [str(guard.sympy) for guard in env.guards] == ["s2 >= s0 + s1"]
    x = env.create_unbacked_float()
    assert env.prove(env.algebra.float_relation("lt", x, x)) is None


def test_an_equality_with_data_gives_it_a_value() -> None:
    env, (a,) = env_with(a=8)
    u = env.create_unbacked_int()
    env.assume(u.eq(a))
    assert env.hint_of(u + 1) == 9
    assert env.simplify(u * 2) is 2 * a


def test_an_assumption_that_is_false_is_reported_as_false() -> None:
    env, (a,) = env_with(a=8)
    assert env.assume(a < 3) is False
    u = env.create_unbacked_bool()
    assert env.assume(u) is True
    assert env.evaluate_expr(u) is True
    assert env.assume(~u) is False


def test_unbacked_sizes_of_inputs_have_no_hint() -> None:
    env = ShapeEnv()
    u = env.create_size(7, Named("a"), D.UNBACKED)
    assert u.hint is None and env.bounds(u)[0] == 0
    with pytest.raises(DataDependent):
        env.evaluate_expr(u.eq(1))


def test_unbacked_sizes_with_one_id_are_one_symbol() -> None:
    env = ShapeEnv()
    sizes = [env.create_size(7, Named(name), D.UNBACKED, DimConstraint(shape_id="batch")) for name in "ab"]
    bounded = env.create_size(7, Named("c"), D.UNBACKED, DimConstraint(max=9, shape_id="batch"))
    assert sizes[0] == sizes[1] == bounded and env.bounds(sizes[0])[1] == 9
    assert env.create_size(7, Named("d"), D.UNBACKED, DimConstraint(shape_id="other")) != sizes[0]
    with pytest.raises(ConstraintViolationError, match="e is 8 and a is 7"):
        env.create_size(8, Named("e"), D.UNBACKED, DimConstraint(shape_id="batch"))


# -- bad input


def test_bad_input_is_refused_and_leaves_the_env_unchanged() -> None:
    env, (a,) = env_with(a=8)
    other, (b,) = env_with(b=9)
    env.evaluate_expr(a > 3)
    before = readable(env), len(env.symbols()), len(env.guards)
    bad = [
        (TypeError, lambda: env.create_size(2.5, Named("x"))),
        (TypeError, lambda: env.create_int(2.5, Named("x"))),
        (TypeError, lambda: env.create_float("y", Named("x"))),
        (TypeError, lambda: env.evaluate_expr(a)),
        (TypeError, lambda: env.evaluate_int(a > 5)),
        (TypeError, lambda: a + 1.5),
        (NotAnExpression, lambda: env.evaluate_expr("s0 > 3")),
        (NotAnExpression, lambda: env.evaluate_expr(sympy.Symbol("unknown") > 3)),
        (NotAnExpression, lambda: env.evaluate_expr(sympy.sin(a.sympy) > 0)),
        (ValueError, lambda: env.evaluate_expr(b > 4)),
        (ValueError, lambda: DimConstraint(min=5, max=4)),
        (TypeError, lambda: DimConstraint(min=2.5)),
        (ValueError, lambda: DimConstraint(max=-1)),
        (ValueError, lambda: DimConstraint(max=2**63)),
        (ValueError, lambda: env.create_size(-1, Named("x"))),
        (ValueError, lambda: env.create_size(2**63, Named("x"))),
        (ZeroDivisionError, lambda: a // 0),
    ]
    for error, attempt in bad:
        with pytest.raises(error):
            attempt()
    assert (readable(env), len(env.symbols()), len(env.guards)) == before


def test_bounds_past_all_sense_are_given_up_safely() -> None:
    env = ShapeEnv()
    n = env.create_int(2**300, Named("n"))
    product = n * n
    assert product.hint == 2**600
    low, high = env.bounds(product + 10**400)
    assert low <= product.hint + 10**400 <= high
    assert env.evaluate_expr(product > 10**150)
    assert env.evaluate_expr(product > 10**149)


def test_guards_can_be_given_as_sympy() -> None:
    env, (a,) = env_with(a=8)
    assert env.evaluate_expr(a.sympy > 3)
    assert env.evaluate_expr(sympy.Ge(a.sympy * 2, 10))
    assert env.statically_known(sympy.And(a.sympy > 2, a.sympy > 3)) is True
    assert readable(env) == ["5 <= a"]


def test_recorded_guards_are_everything_that_was_assumed() -> None:
    env = ShapeEnv()
    a = env.create_size(8, Named("a"))
    env.create_size(8, Named("b"))
    c = env.create_size(16, Named("c"), D.DYNAMIC, DimConstraint(min=4, max=64))
    env.evaluate_expr(c.eq(2 * a))
    env.evaluate_expr(c >= 10)
    texts = [str(condition) for condition in env.recorded_guards()]
    assert texts == ["s0 >= 2", "s1 >= 4", "s1 <= 64", "Eq(s0_1, s0)", "Eq(s1, 2*s0)", "s1 >= 10"]
