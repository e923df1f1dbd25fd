"""Implication, equivalence, witnesses and cores, against hand-made cases and brute force."""

import itertools
import os
import subprocess
import sys
import threading

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from shapes import sympy_functions as f
from shapes.evaluation import evaluate
from shapes.solver import core, disjoint, equivalent, forced_value, implies, problem, satisfy, witness
from shapes.solver.problem import Assumption, Problem, holds_at
from tests.shapes import expressions as e
from tests.shapes.expressions import RAISED, X, Y, Z, expression, outcome

SIZES = [X >= 2, Y >= 2, Z >= 2]

TRUE = [
    (X >= 4, X >= 3), ([X >= 2, Y >= X], Y >= 2), ([X < Y, Y < Z], X < Z - 1),
    (f.FloorDiv(X, 2) >= 3, X >= 6), (X >= 6, f.FloorDiv(X, 2) >= 3),
    (sympy.Eq(f.PythonMod(X, 8), 0), sympy.Eq(f.PythonMod(X, 4), 0)),
    (sympy.Eq(f.PythonMod(X, 8), 0), sympy.Eq(f.PythonMod(X * Y, 8), 0)),
    (sympy.Eq(f.FloorDiv(X, Y), 1), sympy.Ne(Y, 0)),  # 7 // 0 raises, and a guard that raises does not hold
    (sympy.Ne(Y, 0), sympy.Eq(f.FloorDiv(X, Y) * Y + f.PythonMod(X, Y), X)),
    (f.Max(X, Y) <= 3, X <= 3), (X <= f.Min(Y, Z), X <= Z), (sympy.Eq(X, 5), sympy.Or(X > 4, Y > 3)),
    (sympy.Eq(f.BitAnd(X, 7), 0), sympy.Eq(f.PythonMod(X, 8), 0)), (X >= 0, f.BitAnd(X, Y) <= X),
    (f.TrueDiv(X, 2) < 3, sympy.Gt(3, f.TrueDiv(X, 2))), (sympy.false, X > 7), ([], []), (X > 7, True),
]  # fmt: skip
FALSE = [
    (X >= 3, X >= 4), ([X <= Y, Y <= Z], X < Z), (f.FloorDiv(X, 2) >= 3, X >= 7), (X * Y >= 6, X >= 2),
    (sympy.Eq(f.PythonMod(X, 4), 0), sympy.Eq(f.PythonMod(X, 8), 0)),
    ([], X >= 0), (f.BitAnd(X, 3) > 0, f.BitAnd(X, 1) > 0), (True, False),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b"), TRUE, ids=str)
def test_what_follows_is_proved(a, b):
    assert implies(a, b) is True
    assert witness(a, b) is None or b == []


@pytest.mark.parametrize(("a", "b"), FALSE, ids=str)
def test_what_does_not_follow_has_a_witness(a, b):
    assert implies(a, b) is False
    values = witness(a, b)
    assert values is not None and all(type(value) is int for value in values.values())


@pytest.mark.parametrize(("sign", "other"), [(1, 1), (-1, 1), (1, -1)])
def test_bits_of_what_is_not_defined_contradict_nothing(sign, other):
    """x // 0 is one unknown for z3; here the intervals of two sums of it have no value of it in common."""
    facts = [X >= 100, X <= 103, Y >= -1, Y <= 0, Z >= 0, Z <= 1]
    down = sympy.Or(sympy.Eq(Y, 0), f.BitAnd(sign * (f.FloorDiv(X, Y) + 100), X - 100) > 2)
    up = sympy.Or(sympy.Eq(Z, 0), f.BitAnd(other * (f.FloorDiv(X, Z) - 100), X - 100) > 2)
    assert holds_at(sympy.And(down, up), {X: 100, Y: 0, Z: 0})
    assert satisfy([down, up, sympy.Eq(Y, 0), sympy.Eq(Z, 0)], facts=facts).status == "sat"


def test_facts_count():
    assert implies([], X * Y >= 4) is False
    assert implies([], X * Y >= 4, SIZES) is True
    assert equivalent(sympy.Ne(X, 1), True, SIZES) is True
    assert disjoint(X * Y < 4, Z > 7, SIZES) is True


def test_equivalence_is_both_directions():
    assert equivalent(f.PythonMod(X, 8) < 1, sympy.Eq(f.PythonMod(X, 8), 0)) is True
    assert equivalent([X >= 2, X >= 3], X >= 3) is True
    assert equivalent(X >= 2, X >= 3) is False
    assert equivalent(X >= 3, X >= 2) is False
    assert equivalent(f.TrueDiv(X, 2) < 3, f.TrueDiv(X, 2) < 4) is None


def test_disjoint_sets_share_no_value():
    assert disjoint(X >= 3, X <= 2) is True
    assert disjoint(X >= 3, X <= 3) is False
    assert disjoint([X < Y, Y < Z], Z < X + 2) is True
    assert disjoint(f.TrueDiv(X, 2) < 3, f.TrueDiv(X, 2) > 3) is None


def test_a_witness_tells_the_sets_apart():
    values = witness([X >= 2, Y >= X], Y >= 5)
    assert values[X] >= 2 and values[X] <= values[Y] < 5
    assert witness(X >= 3, X >= 2) is None
    assert set(witness([sympy.Or(X > 0, Y > 0)])) == {X, Y}


def test_a_forced_value_is_found():
    assert forced_value([X <= Y, X >= Y, sympy.Eq(X + Y, 10)], X) == 5
    assert forced_value([X <= Y, sympy.Eq(X + Y, 10)], X) is None
    assert forced_value([X <= Y], Z) is None
    assert forced_value([X >= 2, X <= 1], X) is None
    assert forced_value([f.FloorDiv(X, 7) >= 3, X < 22], X) == 21


def test_a_core_names_all_that_is_needed_and_no_more():
    facts = [X <= Y, Z > 3, X >= Y, X <= 100, sympy.Eq(X + Y, 10)]
    assert core(facts, sympy.Eq(X, 5)) == [0, 2, 4]
    assert core([X >= 3, X >= 2, X >= 5], X >= 1) in ([0], [1], [2])
    assert core([X >= 3], X >= 4) is None
    assert core([X >= 3, X >= 3, X <= 2], False) == [0, 2]
    assert core([X >= 3], X >= 2, given=[X >= 2]) == []
    assert core([sympy.And(X >= 3, Y > 2), X < 4], sympy.Eq(X, 3)) == [0, 1]


def test_a_core_is_minimal_whatever_the_order():
    facts = [X >= Y, Y >= Z, Z >= 7, X >= 5, Y >= 6, sympy.Ne(X, 3)]
    for order in itertools.permutations(range(len(facts))):
        shuffled = [facts[i] for i in order]
        blamed = core(shuffled, X >= 6)
        assert implies([shuffled[i] for i in blamed], X >= 6)
        assert all(not implies([shuffled[i] for i in blamed if i != left], X >= 6) for left in blamed)
        if order[0] > 2:
            break


def test_a_fact_of_which_nobody_knows_whether_it_is_needed_is_named(monkeypatch):
    facts = [X >= Y, Y >= 7, X >= 7, Z > 3]
    ask, asked = Problem.ask, []

    def first_only(self, assumptions):
        asked.append(assumptions)
        return ask(self, assumptions) if len(asked) == 1 else "unknown"

    assert core(facts, X >= 6) in ([0, 1], [2])
    monkeypatch.setattr(Problem, "unsat_core", lambda self: set(map(Assumption, facts)))
    monkeypatch.setattr(Problem, "ask", first_only)
    assert core(facts, X >= 6) == [0, 1, 2, 3] and len(asked) == 5


HARD = (sympy.Eq(X**3 + Y**3 + Z**3, 114), [X > 1000, Y > X])


def test_over_the_limit_the_answer_is_unknown():
    goal, facts = HARD
    for limit in (1, 1000):
        assert satisfy(goal, facts=facts, rlimit=limit).status == "unknown"
        assert implies(facts, sympy.Not(goal), rlimit=limit) is None
        assert equivalent(goal, False, facts, rlimit=limit) is None
        assert disjoint(goal, X > 7, facts, rlimit=limit) is None
        assert witness(goal, facts=facts, rlimit=limit) is None
        assert core([*facts, goal], False, rlimit=limit) is None
        assert forced_value([*facts, goal], X, rlimit=limit) is None


def test_the_limit_counts_steps_and_not_time():
    goal, facts = HARD
    spent = []
    for _ in range(2):
        problem = Problem(facts, rlimit=20_000)
        before = problem.steps()
        assert problem.ask([Assumption(goal)]) == "unknown"
        spent.append(problem.steps() - before)
    assert spent[0] == pytest.approx(spent[1], rel=0.1) and spent[0] < 100_000


@pytest.mark.parametrize("wrong", [X + 1, 3, "x > 2", None, sympy.Integer(1)], ids=str)
def test_what_is_no_boolean_is_a_clear_error(wrong):
    for question in (lambda: implies(wrong, X > 1), lambda: implies(X > 1, [wrong]), lambda: core([wrong], X > 1)):
        with pytest.raises(TypeError, match="takes SymPy booleans over integer symbols"):
            question()


_relations = e.small_relations.map(lambda tree: None if outcome(expression, tree) is RAISED else expression(tree))
_guards = st.lists(_relations.filter(lambda built: built is not None), max_size=3)
GRID = [dict(zip((X, Y, Z), point, strict=True)) for point in itertools.product([-9, -4, -2, -1, 0, 1, 2, 3, 5, 8], repeat=3)]


@settings(max_examples=60, deadline=None)
@given(_guards, _guards)
def test_no_proof_is_refuted_by_a_value(a, b):
    verdict = implies(a, b, rlimit=50_000)
    if verdict is True:
        for values in GRID:
            if all(holds_at(expr, values) for expr in a):
                assert all(holds_at(expr, values) for expr in b), values
    elif verdict is False:
        found = witness(a, b, rlimit=50_000)
        if found is None:  # the budget was spent before a value was found
            return
        values = {X: 0, Y: 0, Z: 0} | found
        assert all(outcome(evaluate, expr, values) == ("bool", True, 0) for expr in a)
        assert not all(outcome(evaluate, expr, values) == ("bool", True, 0) for expr in b)


def test_z3_is_loaded_by_the_first_question_only():
    program = (
        "import sys, sympy, shapes.solver, shapes.printing\n"
        "x = sympy.Symbol('x', integer=True)\n"
        "assert 'z3' not in sys.modules and 'torch' not in sys.modules\n"
        "assert shapes.solver.prune([]).certified and 'z3' not in sys.modules\n"
        "assert shapes.solver.implies(x > 2, x > 1) and 'z3' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, env={"PYTHONPATH": ":".join(p for p in sys.path if p)})


def test_threads_ask_at_the_same_time():
    answers = []

    def ask():
        answers.extend(implies([X >= n, Y >= X], Y * X >= n * n, [X >= 0]) for n in range(2, 12))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [True] * 40


def test_a_forked_child_asks_afresh():
    assert implies(X >= 4, X >= 3)
    child = os.fork()
    if child == 0:
        os._exit(0 if implies(X >= 4, X >= 3) and implies(X >= 3, X >= 4) is False else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert implies(X >= 4, X >= 3)


def test_the_clock_ends_what_counts_no_steps_and_what_is_asked_then_is_not_known(monkeypatch):
    primes = 2305843009213693951 * 618970019642690137449562111  # nobody factors their product in a second
    monkeypatch.setattr(problem, "SECONDS", 0.0002)
    hard = Problem([sympy.Eq(X * Y, primes), X >= 2, Y >= X], rlimit=1000 * problem.RLIMIT)
    assert hard.ask([Assumption(X > 1)]) == "unknown"
    steps = hard.steps()
    assert steps < 900 * problem.RLIMIT  # the clock it was, not the limit
    assert hard.ask([Assumption(X >= 2)]) == "unknown" and hard.steps() == steps
    monkeypatch.undo()
    assert Problem([X >= 2]).ask([Assumption(X >= 2)]) == "sat"
