"""Pruning drops what is implied, keeps the rest, and is certified."""

import itertools
import random
import subprocess
import sys

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from shapes import sympy_functions as f
from shapes.solver import equivalent, implies, prune
from shapes.solver.problem import Assumption, Problem, holds_at
from shapes.solver.pruning import _Search
from shapes.solver.terms import terms
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
    guards = [X * Y <= 64, Z <= 7, X <= 8, Y <= 8, X >= 2, sympy.true, X * Z != 0, Z <= 7]
    result = prune(guards, SIZES)
    assert [(drop.index, drop.by) for drop in result.dropped] == [(0, (2, 3)), (4, ()), (5, ()), (6, ()), (7, (1,))]
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


def test_the_result_is_the_same_in_every_process():
    program = (
        "import sympy; from shapes.sympy_functions import *; from shapes.solver import prune\n"
        "x, y, z = sympy.symbols('x y z', integer=True)\n"
        "guards = [x <= y, y <= x, sympy.Eq(x, y), x < 9, sympy.Ne(x*y, 100), PythonMod(x, 8) < 1, sympy.Or(x > 1, y > 2),"
        " sympy.And(Max(x, z) >= 3, z >= 3), x*y*z > 20, FloorDiv(z, x) >= 0]\n"
        "result = prune(guards, [x >= 2, y >= 2])\n"
        "print(result.kept, result.indices, [(d.expr, d.index) for d in result.dropped])"
    )
    path = ":".join(part for part in sys.path if part)
    texts = set()
    for seed in ("0", "1", "2"):
        env = {"PYTHONHASHSEED": seed, "PYTHONPATH": path}
        texts.add(subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True).stdout)
    assert len(texts) == 1


def test_facts_are_not_kept_and_not_needed_twice():
    assert prune(SIZES, SIZES).kept == ()
    assert prune([X >= 2], [sympy.And(X >= 2, Y > 3)]).kept == ()


def test_from_contradictory_facts_nothing_is_dropped():
    guards = [X + Y >= 4, X * Z >= 3]
    result = prune(guards, [Y + Z >= 3, Y + Z <= 2, Z >= 7])
    assert set(result.kept) == set(guards) and result.certified and not result.dropped


def test_guards_that_contradict_each_other_still_do():
    result = prune([X >= 4, X <= 3, Y < 7], SIZES)
    assert equivalent(result.kept, False) is True


BOUNDS = [
    ([X >= 4, X >= 3], [X >= 4], {1: (0,)}),
    ([X >= 3, X >= 4], [X >= 4], {0: (1,)}),
    ([X <= 3, X <= 4], [X <= 3], {1: (0,)}),
    ([X > 3, X >= 4], [X >= 4], {0: (1,)}),
    ([X > 3, X >= 5], [X >= 5], {0: (1,)}),
    ([X > 3, X >= 3], [X > 3], {1: (0,)}),
    ([X <= 4, X < 4], [X < 4], {0: (1,)}),
    ([sympy.Eq(X, 5), X <= 5, X >= 5], [sympy.Eq(X, 5)], {1: (0,), 2: (0,)}),
    ([sympy.Eq(X, 5), X <= 7, X >= 3], [sympy.Eq(X, 5)], {1: (0,), 2: (0,)}),
    ([sympy.Ne(X, 5), X <= 5, X <= 7], [sympy.Ne(X, 5), X <= 5], {2: (1,)}),
    ([sympy.Ne(X, 5), X <= 4], [X <= 4], {0: (1,)}),
    ([X < 4, X <= 3], [X <= 3], {0: (1,)}),
    ([X < 4, X <= 2], [X <= 2], {0: (1,)}),
    ([X >= 2, X <= 9], [X <= 9], {0: ()}),
    ([X <= 9, X >= -1, Y > 1, Y >= 2], [X <= 9], {1: (), 2: (), 3: ()}),
    ([sympy.And(X >= 4, Y <= 9), sympy.And(X >= 3, Y <= 8)], [X >= 4, Y <= 8], {0: (1,), 1: (0,)}),
    ([2 * X + Y >= 16, 2 * X + Y >= 8], [2 * X + Y >= 16], {1: (0,)}),
    ([f.FloorDiv(Z, X) <= 16, f.FloorDiv(Z, X) < 7], [f.FloorDiv(Z, X) < 7], {0: (1,)}),
    ([X - Y >= 3, Y - X <= -2], [X - Y >= 3], {1: (0,)}),
]  # fmt: skip


@pytest.mark.parametrize(("guards", "kept", "dropped"), BOUNDS, ids=[str(guards) for guards, *_ in BOUNDS])
def test_the_weaker_of_two_bounds_on_a_term_goes(guards, kept, dropped):
    result = prune(guards, SIZES)
    assert sorted(result.kept, key=str) == sorted(kept, key=str)
    assert {drop.index: drop.by for drop in result.dropped} == dropped
    assert equivalent(result.kept, guards, SIZES) is True


def test_z3_is_not_asked_about_bounds_of_symbols_of_which_nothing_else_is_said():
    bounds = [X >= 4, X >= 3, X <= 9, Y <= 7, Z >= 2]
    assert prune(bounds, SIZES).questions == 0
    assert prune([*bounds, sympy.Ne(X, 5)], SIZES).questions == 3  # all guards on x that are left
    assert prune([*bounds, sympy.Ne(X + Y, 9)], SIZES).questions == 4
    assert prune(bounds, [*SIZES, X + Z >= 3]).questions == 3 - 1  # z >= 2 is a fact
    assert prune([X * Y >= 8], SIZES).questions == 1


def test_no_more_solvers_are_made_than_are_needed(monkeypatch):
    made, start = [], Problem.__init__

    def counted(self, *args, **options):
        made.append(options)
        start(self, *args, **options)

    monkeypatch.setattr(Problem, "__init__", counted)
    prune([X >= 4, X >= 3], SIZES)
    assert not made
    prune([X * Y >= 8], SIZES)
    assert len(made) == 1  # nothing is implied, so nothing is proved again
    prune([X * Y >= 8, X >= 4, Y >= 4], SIZES)
    assert [options["translator"] is None for options in made[1:]] == [True, False]


def test_bounds_on_floats_are_left_to_each_other():
    half = f.TrueDiv(X, 2)
    assert len(prune([half >= 2, half >= 3], SIZES).kept) == 2


HARD = [X * X * Y - 2 * X * Y * Y > 7, X * X + Y * Y * X > 20, X * Y * Z > 5]


@pytest.mark.parametrize("rlimit", [1, 100])
def test_what_is_not_proved_is_kept(rlimit):
    result = prune([*HARD, HARD[1]], SIZES, rlimit=rlimit)
    assert set(result.kept) == set(HARD) and result.certified
    assert result.unknown == 3
    assert [drop.index for drop in result.dropped] == [3]  # the same guard again needs no proof


def test_after_some_hard_questions_none_is_asked(monkeypatch):
    asked = []

    def unknown(self, assumptions):
        asked.append(self)
        return "unknown"

    monkeypatch.setattr(Problem, "ask", unknown)
    result = prune([X + Y >= n * Z for n in range(1, 31)])
    assert result.unknown == len(result.kept) == 30 and result.certified
    assert len(asked) == 2 * 10 and len(set(asked)) == 11  # each in a solver of its own, too


def test_what_is_unknown_among_many_is_asked_alone(monkeypatch):
    """A solver that has worked on other guards may find no answer where a new one does."""
    ask, shares = Problem.ask, []

    def lost(self, assumptions):
        shares.append((self.rlimit, self.translator.terms is terms()))
        return ask(self, assumptions) if self.rlimit == 160_000 else "unknown"

    monkeypatch.setattr(Problem, "ask", lost)
    result = prune([2 * X >= 8, 3 * X >= 9, X * Y > 6], SIZES, rlimit=160_000)
    assert result.kept == (2 * X >= 8,) and not result.unknown
    assert shares == [(10_000, True), (160_000, False)] * 5


def answers(monkeypatch, change):
    """What z3 says passes through `change(question number, guard, answer)`."""
    ask, count = _Search._ask, itertools.count()

    def changed(self, problem, guard, by):
        return change(next(count), guard, ask(self, problem, guard, by))

    monkeypatch.setattr(_Search, "_ask", changed)


def test_a_drop_that_is_not_proved_again_is_kept(monkeypatch):
    answers(monkeypatch, lambda number, guard, answer: ("unknown", []) if number >= 4 and guard.expr == (3 * X >= 9) else answer)
    result = prune([2 * X >= 8, 3 * X >= 9, 5 * X >= 10, X * Y > 3], SIZES)
    assert set(result.kept) == {2 * X >= 8, 3 * X >= 9} and result.certified and result.unknown == 1
    assert {drop.index for drop in result.dropped} == {2, 3}


def test_a_wrong_drop_is_caught_and_gives_back_the_old_set(monkeypatch):
    answers(monkeypatch, lambda number, guard, answer: ("unsat", []) if number < 3 else answer)
    guards = [X + Y >= 4, X * Y >= 9, X * Z >= 1]
    result = prune(guards, SIZES)
    assert set(result.kept) == set(guards) and not result.certified and not result.dropped


def test_guards_that_imply_each_other_are_not_both_dropped(monkeypatch):
    def circular(self, problem):
        first, second = self.guards
        self.implied = [(first, [second]), (second, [first])]

    monkeypatch.setattr(_Search, "_drop", circular)
    result = prune([2 * X >= 8, 3 * X >= 12], SIZES)
    assert len(result.kept) == 2 and not result.certified


def test_the_questions_are_counted():
    assert prune([2 * X >= 8, 3 * X >= 9, X * Y > 3], SIZES).questions == 5  # each, and two drops again
    assert prune([X >= 2], SIZES).questions == prune([], SIZES).questions == 0


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
@given(_guards, st.sampled_from([values for values in GRID if all(holds_at(size, values) for size in SIZES)]))
def test_no_kept_guard_is_implied_by_the_others(relations, sizes):
    decided = [*relations, *map(sympy.Not, relations)]
    guards = [guard for guard in decided if holds_at(sympy.sympify(guard), sizes)]  # as a program of these sizes records them
    result = prune(guards, SIZES, rlimit=50_000)
    implied = 0
    for guard in result.kept:
        others = [other for other in result.kept if other is not guard]
        implied += implies(others, guard, SIZES, rlimit=50_000) is True
    assert implied <= result.unknown


def test_assumptions_are_kept_apart_by_their_sign():
    problem = Problem()
    assert problem.ask([Assumption(X > 3), Assumption(X > 3, negated=True)]) == "unsat"
    assert problem.unsat_core() == {Assumption(X > 3), Assumption(X > 3, negated=True)}
