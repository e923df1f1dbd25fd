"""Regions of a domain: what several leave out, the nearest covered shape, and what a region says beside its domain."""

from __future__ import annotations

import pytest

from shapes import solver
from shapes.domain import Domain, Variable
from shapes.guards import Why
from shapes.parsing import parse_condition, variable
from shapes.regions import Condition, Region, find_member, find_uncovered, nearest, substituted
from shapes.solver import Answer

B, S = variable("B"), variable("S")
DOMAIN = Domain((Variable("B", 1, 256), Variable("S", 1, 4096)), {"x0": B, "x1": S})
LARGE = Domain((Variable("B", 1, 256), Variable("S", 1)), {"x0": B, "x1": S})
SMALL = Domain((Variable("B", 1, 9), Variable("S", 8, 64, 8)), {"x0": B, "x1": S}, (parse_condition("B <= S"),))


def region(*texts: str) -> Region:
    return Region(tuple([Condition(parse_condition(text), Why.BRANCH) for text in texts]))


def test_regions_that_leave_nothing_out_are_proved_to():
    parts = [region("B <= 8"), region("B > 8", "S % 128 == 0"), region("B > 8", "S % 128 != 0")]
    assert find_uncovered(DOMAIN, parts).status == "unsat"


@pytest.mark.parametrize("left_out", [0, 1, 2])
def test_a_shape_that_is_left_out_is_one(left_out):
    parts = [region("B <= 8"), region("B > 8", "S % 128 == 0"), region("B > 8", "S % 128 != 0")]
    found = find_uncovered(DOMAIN, [part for index, part in enumerate(parts) if index != left_out])
    assert found.status == "sat" and DOMAIN.holds(found.witness)
    assert [part.check(found.witness) for part in parts] == [index == left_out for index in range(3)]


def test_the_empty_set_leaves_out_a_small_shape():
    found = find_uncovered(DOMAIN, [])
    assert found.status == "sat" and max(found.witness.values()) <= 64


def test_a_large_shape_is_found_where_only_large_ones_are_left_out():
    assert find_uncovered(DOMAIN, [region("B + S < 4352")]).witness == {B: 256, S: 4096}


def test_unknown_is_neither(monkeypatch):
    monkeypatch.setattr(solver, "satisfy", lambda *args, **options: Answer("unknown"))
    assert (
        find_uncovered(LARGE, [region("B >= 2")]) == find_uncovered(LARGE, []) and find_uncovered(LARGE, []).status == "unknown"
    )
    assert nearest(DOMAIN, [region("B >= 1")], {B: 1, S: 1}) is None


def test_no_answer_within_the_limit_is_unknown():
    assert find_uncovered(LARGE, [region("B >= 2")], rlimit=1).status == "unknown"


@pytest.mark.parametrize(
    ("texts", "status"),
    [
        (["B <= 4", "B > 4"], "unsat"),
        (["B <= 4", "B > 5"], "sat"),
        (["B != 9 or S != 64"], "sat"),
        (["S % 8 == 0"], "unsat"),
        (["S >= B"], "unsat"),
        (["S % (B - 3) >= -9", "B == 3"], "unsat"),
        (["S % (B - 3) >= -9"], "sat"),
        (["S % (B - 3) == 0", "S % (B - 3) != 0"], "sat"),
    ],
)
def test_few_shapes_are_tried_one_by_one_where_z3_does_not_know(monkeypatch, texts, status):
    monkeypatch.setattr(solver, "satisfy", lambda *args, **options: Answer("unknown"))
    found = find_uncovered(SMALL, [region(text) for text in texts])
    assert found.status == status
    if status == "sat":
        assert SMALL.holds(found.witness) and not any(region(text).check(found.witness) for text in texts)


def test_a_member_is_looked_for_among_samples_where_z3_does_not_know(monkeypatch):
    assert find_member(LARGE, region("B > 300")).status == "unsat" and find_member(LARGE, region("B == 7")).witness[B] == 7
    monkeypatch.setattr(solver, "satisfy", lambda *args, **options: Answer("unknown"))
    assert find_member(LARGE, region("B <= 200")).witness[B] <= 200 and find_member(LARGE, region("B > 300")).status == "unknown"


@pytest.mark.parametrize(
    ("text", "point", "expected"),
    [
        ("B <= 8 and S % 128 == 0", {B: 20, S: 200}, {B: 8, S: 256}),
        ("B * S >= 1000000", {B: 256, S: 3000}, {B: 256, S: 3907}),
        ("S == 2*B", {B: 3, S: 9}, None),
    ],
)
def test_the_nearest_covered_shape(text, point, expected):
    found = nearest(DOMAIN, [region(text)], point)
    assert region(text).check(found) and DOMAIN.holds(found)
    if expected is not None:
        assert found == expected
    else:
        assert sum(abs(found[name] - point[name]) for name in point) == 2


def test_no_shape_is_nearest_where_none_is_covered():
    assert nearest(DOMAIN, [region("B > 256")], {B: 1, S: 1}) is None


def test_the_text_of_a_region_leaves_out_what_the_domain_says():
    assert region("B >= 1", "B <= 8", "B >= 2", "S <= 4096").text(DOMAIN) == "2 <= B <= 8"
    assert region("B >= 1", "S <= 5000").text(DOMAIN) == "every shape"
    assert region("B >= 2", "B == 3 or S == 4").text(DOMAIN).count("(") == 1


def test_conditions_over_other_symbols_become_those_of_the_domain():
    moved = substituted([Condition(parse_condition("a % 8 == b"), Why.BRANCH)], {variable("a"): 2 * S, variable("b"): B})
    assert moved.formula == parse_condition("2*S % 8 == B")


def test_a_guard_that_raises_is_a_miss():
    assert not region("S % (B - 1) == 0").check({B: 1, S: 4})
    assert find_uncovered(DOMAIN, [region("S % (B - 1) >= 0"), region("B > 1")]).witness[B] == 1
    assert find_uncovered(DOMAIN, [region("S % (B - 1) == 0"), region("S % (B - 1) != 0")]).witness[B] == 1
