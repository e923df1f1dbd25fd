"""Questions that share a budget end with it: what is asked when it is spent is not known."""

import pytest
import sympy

from shapes import solver
from shapes.solver import problem
from shapes.solver.terms import Terms
from tests.shapes.expressions import X, Y, Z

SIZES = [X >= 2, Y >= 2, Z >= 2]
# They hold, for a sum of three cubes is never 4 more than a multiple of 9, but z3 decides none of them.
HARD = [sympy.Ne(X**3 + Y**3, Z**3 + n) for n in range(4, 184, 9)]


@pytest.fixture
def asked(monkeypatch):
    """One item for each question that reaches z3."""
    found, check = [], Terms.check
    monkeypatch.setattr(Terms, "check", lambda self, *args: found.append(1) or check(self, *args))
    return found


def test_hard_questions_of_one_budget_are_bounded_in_number(asked):
    with solver.budget(3 * problem.RLIMIT) as mine:
        assert solver.implies(SIZES, HARD) is None
    assert mine.left <= 0 and len(asked) <= 6
    assert solver.implies(X >= 3, X >= 2) is True  # behind it nothing is spent


def test_easy_questions_count_too(asked):
    with solver.budget(10 * problem.LEAST_STEPS):
        answers = [solver.implies(X >= n, X >= 2) for n in range(3, 40)]
    assert answers == [True] * 10 + [None] * 27 and len(asked) <= 27


def test_the_last_question_takes_no_more_than_what_is_left():
    with solver.budget(20_000) as mine:
        assert solver.satisfy([*SIZES, sympy.Eq(X**3 + Y**3, Z**3 + 4)]).status == "unknown"
    assert -1_000 < mine.left <= 0


def test_a_budget_counts_for_the_one_around_it(asked):
    with solver.budget(problem.RLIMIT) as outer:
        for _ in range(20):
            with solver.budget():
                solver.implies(SIZES, HARD[:1])
    assert outer.left <= 0 and len(asked) <= 3


def test_pruning_keeps_what_it_could_not_ask(asked):
    facts = [X >= 2, X <= 99]
    guards = [X + Y >= n for n in range(2, 12)] + [sympy.Ne(X + Y, 1), sympy.Ne(2 * X, 3)]
    with solver.budget(problem.LEAST_STEPS):
        kept = solver.prune(guards, facts).kept
    assert len(asked) == 1 and {sympy.Ne(X + Y, 1), X + Y >= 11} <= set(kept)
    assert sympy.Ne(X + Y, 1) not in solver.prune(guards, facts).kept


def test_the_clock_costs_more_than_steps(monkeypatch):
    monkeypatch.setattr(problem, "SECONDS", 0.0)
    with solver.budget(problem.TIMEOUT_STEPS) as mine:
        solver.implies(SIZES, HARD[:1])
    assert mine.left < 0
