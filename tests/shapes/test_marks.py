"""Marks on dims: what they demand of the program, and the error when the program contradicts them."""

from __future__ import annotations

import pytest

from shapes import ConstraintViolationError, DimConstraint, DimPolicy, ShapeEnv
from tests.shapes.algebra_programs import Named

D = DimPolicy.DYNAMIC


def marked(env: ShapeEnv, name: str, hint: int, **bounds):
    return env.create_size(hint, Named(name), D, DimConstraint(**bounds))


def test_three_lines_that_together_force_a_size_are_all_named() -> None:
    lines = iter(["a <= b at model.py:3", "a >= b at model.py:4", "c > 2 at model.py:5", "a + b == 10 at model.py:6"])
    env = ShapeEnv(where=lambda: next(lines))
    a = marked(env, "L['a'].size()[0]", 5)
    b = env.create_size(5, Named("L['b'].size()[0]"), D)
    c = env.create_size(7, Named("L['c'].size()[0]"), D)
    for condition in (a <= b, a >= b, c > 2, (a + b).eq(10)):
        assert env.evaluate_expr(condition)
    with pytest.raises(ConstraintViolationError) as caught:
        env.check_constraints()
    text = str(caught.value)
    assert "L['a'].size()[0] was marked dynamic, but the program forces L['a'].size()[0] == 5" in text
    assert "these 3 lines together" in text
    assert [cause.where.split(" at ")[1] for cause in caught.value.causes] == ["model.py:3", "model.py:4", "model.py:6"]
    assert "maybe_mark_dynamic" in text


def test_one_line_that_specialises_is_named_alone() -> None:
    env = ShapeEnv(where=lambda: "model.py:9")
    a = marked(env, "L['a'].size()[0]", 5)
    env.evaluate_expr(a > 3)
    env.evaluate_int(a)
    with pytest.raises(ConstraintViolationError, match="by this line:") as caught:
        env.check_constraints()
    assert len(caught.value.causes) == 1


def test_a_mark_that_only_asks_never_raises() -> None:
    env = ShapeEnv()
    a = marked(env, "a", 5, strict=False)
    env.evaluate_int(a)
    env.check_constraints()


def test_an_equality_between_dims_does_not_contradict_their_marks() -> None:
    env = ShapeEnv()
    a, b = marked(env, "a", 6), marked(env, "b", 6)
    env.evaluate_expr(a.eq(b))
    env.evaluate_expr((a % 2).eq(0))
    env.check_constraints()


def test_a_branch_that_serves_only_part_of_the_bounds_contradicts_them() -> None:
    env = ShapeEnv()
    a = marked(env, "a", 6, min=2, max=100)
    env.evaluate_expr(a < 50)
    with pytest.raises(ConstraintViolationError, match=r"marked dynamic \(min=2, max=100\).*forces a <= 49"):
        env.check_constraints()


def test_without_bounds_a_branch_may_serve_part_of_the_sizes() -> None:
    env = ShapeEnv()
    a = marked(env, "a", 6)
    env.evaluate_expr(a < 50)
    env.check_constraints()


def test_bounds_may_be_given_on_one_side() -> None:
    env = ShapeEnv()
    a = marked(env, "a", 6, min=4)
    b = marked(env, "b", 6, max=9)
    assert env.bounds(a) == (4, float("inf")) and env.bounds(b) == (2, 9)
    env.evaluate_expr(a < 50)
    env.evaluate_expr(b > 3)
    env.check_constraints()
    assert [g.readable for g in env.produce_guards()] == ["4 <= a <= 49", "4 <= b <= 9"]


def test_what_the_bounds_imply_needs_no_guard() -> None:
    env = ShapeEnv()
    a = marked(env, "a", 6, min=4, max=64)
    assert env.evaluate_expr(a >= 3) and env.evaluate_expr(a * 2 < 200)
    assert env.guards == []
    assert [g.readable for g in env.produce_guards()] == ["4 <= a <= 64"]


def test_a_size_outside_of_its_bounds_raises_before_anything_is_made() -> None:
    env = ShapeEnv()
    for value, bounds in ((3, {"min": 4}), (1, {"min": 2}), (9, {"max": 8}), (0, {"min": 1, "max": 8})):
        with pytest.raises(ConstraintViolationError, match=f"a is {value}, but it was marked with"):
            marked(env, "a", value, **bounds)
    assert env.symbols() == []


def test_without_a_min_sizes_zero_and_one_are_constants_without_error() -> None:
    env = ShapeEnv()
    assert marked(env, "a", 0) == 0
    assert marked(env, "a", 1, max=8) == 1
    env.check_constraints()


def test_several_contradicted_marks_are_told_in_one_error() -> None:
    env = ShapeEnv()
    a, b = marked(env, "a", 6), marked(env, "b", 7)
    env.evaluate_int(a)
    env.evaluate_int(b)
    with pytest.raises(ConstraintViolationError) as caught:
        env.check_constraints()
    assert "forces a == 6" in str(caught.value) and "forces b == 7" in str(caught.value)


def test_a_mark_specialised_through_other_sizes_is_found() -> None:
    env = ShapeEnv()
    a = marked(env, "a", 4)
    b = env.create_size(12, Named("b"), D)
    env.evaluate_expr(b.eq(3 * a))
    env.evaluate_int(b)
    with pytest.raises(ConstraintViolationError, match="forces a == 4") as caught:
        env.check_constraints()
    assert len(caught.value.causes) == 2


def test_a_size_forced_only_by_reasoning_is_found() -> None:
    env = ShapeEnv()
    a = marked(env, "a", 5)
    b = env.create_size(7, Named("b"), D)
    env.evaluate_expr((a * b).eq(35))
    env.evaluate_expr(a >= 3)
    env.evaluate_expr(b >= 7)
    with pytest.raises(ConstraintViolationError, match="forces a == 5"):
        env.check_constraints()


def test_divisibility_contradicts_bounds_and_is_told_as_it_is() -> None:
    env = ShapeEnv()
    a = marked(env, "a", 6, min=2, max=100)
    env.evaluate_expr((a % 2).eq(0))
    with pytest.raises(ConstraintViolationError, match="forces a % 2 == 0"):
        env.check_constraints()
