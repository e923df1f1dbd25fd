"""Pruning drops what is implied, keeps the rest, and is certified."""

import itertools
import random

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from shapes import functions as f
from shapes.solver import equivalent, implies, prune
from shapes.solver.problem import Assumption, Problem, holds_at
from shapes.solver.pruning import _Search
from tests.shapes import expressions as e
from tests.shapes.expressions import RAISED, X, Y, Z, expression, outcome

SIZES = [X >= 2, Y >= 2, Z >= 2]

CASES = [
    ([X >= 4, X >= 3, X >= 4], [X >= 4]),
    ([X >= 2, sympy.Ne(X, 1), sympy.Ne(X * Y, 1)], []),
    ([X <= 15, X <= 20, X * Y * Z > 4], [X <= 15]),
    (
        [sympy.Eq(f.PythonMod(X, 8), 0), sympy.Eq(f.PythonMod(X, 4), 0), sympy.Ne(X, 6)],
        [sympy.Eq(f.PythonMod(X, 8), 0)],
    ),
    ([f.FloorDiv(X, 2) >= 2, sympy.Ne(f.FloorDiv(X, 2) * f.FloorDiv(Y, 2), 1)], [f.FloorDiv(X, 2) >= 2]),
    ([X < Y, Y < Z, X < Z], [X < Y, Y < Z]),
    ([sympy.And(X >= 2, X <= 9), X <= 12], [X <= 9]),
    ([X <= Y, Y <= X, sympy.Eq(X, Y)], [sympy.Eq(X, Y)]),
    ([f.TrueDiv(X, 2) < 3, sympy.Gt(3, f.TrueDiv(X, 2)), X >= 2], 1),
    ([True, sympy.true], []),
    ([], []),
]


@pytest.mark.parametrize(("guards", "kept"), CASES, ids=[str(guards) for guards, _ in CASES])
def test_implied_guards_are_dropped(guards, kept):
    result = prune(guards, SIZES)
    assert result.certified and result.unknown == 0
    if isinstance(kept, int):
        assert len(result.kept) == kept
    else:
        assert set(result.kept) == set(kept)
    conjuncts = [c for guard in guards for c in sympy.And.make_args(sympy.sympify(guard))]
    assert len(result.kept) + len(result.dropped) == len(conjuncts)


def test_each_drop_says_what_implied_it():
    guards = [X * Y <= 64, Z <= 7, X <= 8, Y <= 8, X >= 2]
    result = prune(guards, SIZES)
    assert [(drop.index, drop.by) for drop in result.dropped] == [(0, (2, 3)), (4, ())]
    for drop in result.dropped:
        assert implies([guards[i] for i in drop.by], drop.expr, SIZES)
    assert [guards[i] for i in result.indices] == list(result.kept)


def test_the_result_is_the_same_for_every_order():
    guards = [X <= Y, Y <= X, sympy.Eq(X, Y), X < 9, Y < 9, sympy.Ne(X * Y, 100), X <= Z]
    expected = prune(guards, SIZES).kept
    for seed in range(10):
        shuffled = random.Random(seed).sample(guards, len(guards))
        assert prune(shuffled, SIZES).kept == expected
        assert prune(shuffled, SIZES[::-1]).kept == expected


def test_facts_are_not_kept_and_not_needed_twice():
    assert prune(SIZES, SIZES).kept == ()
    assert prune([X >= 2], [sympy.And(X >= 2, Y > 3)]).kept == ()


def test_from_contradictory_facts_nothing_is_dropped():
    result = prune([X >= 4, X >= 3], [Y >= 2, Y <= 1])
    assert set(result.kept) == {X >= 4, X >= 3} and result.certified


def test_guards_that_contradict_each_other_still_do():
    result = prune([X >= 4, X <= 3, Y < 7], SIZES)
    assert equivalent(result.kept, False) is True


@pytest.mark.parametrize("rlimit", [1, 100])
def test_what_is_not_proved_is_kept(rlimit):
    guards = [X >= 4, X >= 3, X * Y > 7, X >= 4]
    result = prune(guards, SIZES, rlimit=rlimit)
    assert set(result.kept) == {X >= 4, X >= 3, X * Y > 7} and result.certified
    assert result.unknown == 3
    assert [drop.index for drop in result.dropped] == [3]  # the same guard again needs no proof


def test_the_whole_is_bounded_too(monkeypatch):
    monkeypatch.setattr("shapes.solver.pruning.BUDGET", 0)
    guards = [X + Y >= n for n in range(12)]
    result = prune(guards)
    assert result.unknown > 0 and result.certified
    assert equivalent(result.kept, guards) is True


def test_a_drop_that_is_not_proved_again_is_kept(monkeypatch):
    again = _Search._again

    def forgetful(self, problem, guard, by):
        return "unknown" if guard.expr == (X >= 3) else again(self, problem, guard, by)

    monkeypatch.setattr(_Search, "_again", forgetful)
    result = prune([X >= 4, X >= 3, X >= 2, X * Y > 3], SIZES)
    assert set(result.kept) == {X >= 4, X >= 3} and result.certified and result.unknown == 1


def test_a_wrong_drop_is_caught_and_gives_back_the_old_set(monkeypatch):
    def reckless(self, guard, rest):
        return list(rest)

    monkeypatch.setattr(_Search, "_implied_by", reckless)
    result = prune([X >= 4, Y >= 3], SIZES)
    assert set(result.kept) == {X >= 4, Y >= 3} and not result.certified


def test_guards_that_imply_each_other_are_not_both_dropped(monkeypatch):
    def circular(self):
        first, second = self.guards
        self.implied = [(first, [second]), (second, [first])]

    monkeypatch.setattr(_Search, "_drop", circular)
    result = prune([2 * X >= 8, 3 * X >= 12], SIZES)
    assert len(result.kept) == 2 and not result.certified


def test_the_cost_is_counted():
    result = prune([X >= 4, X >= 3, X * Y > 3], SIZES)
    assert result.questions == 6  # contradictory? each of three implied? two of them again
    assert 0 < result.steps < 200_000
    assert prune([X >= 2], SIZES).questions == prune([X >= 2], SIZES).steps == 0


def test_what_the_quick_try_leaves_open_is_tried_with_the_whole_limit(monkeypatch):
    monkeypatch.setattr("shapes.solver.pruning.QUICK", 10**9)
    result = prune([X >= 4, X >= 3, X * Y > 3], SIZES)
    assert result.kept == (X >= 4,) and not result.unknown


def test_what_is_unknown_among_many_is_asked_alone(monkeypatch):
    """A solver that has worked on other guards may get lost where a new one does not."""
    ask, start = Problem.ask, _Search.__init__

    def lost(self, *args, **options):
        start(self, *args, **options)
        monkeypatch.setattr(self.problem, "ask", lambda asked: "unknown" if asked else ask(self.problem, asked))

    monkeypatch.setattr(_Search, "__init__", lost)
    result = prune([X >= 4, X >= 3], SIZES)
    assert result.kept == (X >= 4,) and not result.unknown


def test_division_that_may_raise_is_a_guard_of_its_own():
    """`x // y == x // y + 0` says that y is not 0."""
    quotient = f.FloorDiv(X, Y)
    result = prune([sympy.Le(quotient, quotient + 1, evaluate=False), X > 3])
    assert len(result.kept) == 2
    assert prune([sympy.Le(quotient, quotient + 1, evaluate=False), X > 3], SIZES).kept == (X > 3,)


_relations = e.small_relations.map(lambda tree: None if outcome(expression, tree) is RAISED else expression(tree))
_guards = st.lists(_relations.filter(lambda built: built is not None), max_size=5)
GRID = [dict(zip((X, Y, Z), point, strict=True)) for point in itertools.product([-7, -2, -1, 0, 1, 2, 3, 8], repeat=3)]


@settings(max_examples=60, deadline=None)
@given(_guards, st.sampled_from([(), SIZES, SIZES[:1]]))
def test_kept_guards_hold_exactly_where_the_recorded_do(guards, facts):
    result = prune(guards, facts, rlimit=50_000)
    assert result.certified
    for values in GRID:
        if all(holds_at(fact, values) for fact in facts):
            recorded = all(holds_at(sympy.sympify(guard), values) for guard in guards)
            assert all(holds_at(guard, values) for guard in result.kept) == recorded, values


@settings(max_examples=30, deadline=None)
@given(_guards)
def test_no_kept_guard_is_implied_by_the_others(guards):
    result = prune(guards, SIZES, rlimit=50_000)
    implied = 0
    for guard in result.kept:
        others = [other for other in result.kept if other is not guard]
        implied += implies(others, guard, SIZES, rlimit=50_000) is True
    assert implied <= result.unknown


def test_assumptions_are_kept_apart_by_their_sign():
    problem = Problem()
    assert problem.ask([Assumption(X > 3), Assumption(X > 3, negated=True)]) == "unsat"
    assert problem.used() == {Assumption(X > 3), Assumption(X > 3, negated=True)}
