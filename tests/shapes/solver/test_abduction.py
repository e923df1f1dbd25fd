"""The weakest assumption on known sizes that decides a condition."""

from __future__ import annotations

import itertools
import random

import pytest
import sympy

from shapes import sympy_functions as f
from shapes.evaluation import evaluate
from shapes.solver import budget, implies, weakest_assumption

U, V, N, M, C = sympy.symbols("u v n m c", integer=True)


def sizes(*symbols):
    return [bound for symbol in symbols for bound in (symbol >= 1, symbol <= 64)]


OF_MASKS = [U >= 0, U <= N, V >= 0, V <= M, *sizes(N, M, C)]
HERE = {N: 3, M: 4, C: 9}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (U <= C, N <= C),
        (U + 2 <= C, N + 2 <= C),
        (2 * U <= C, 2 * N <= C),
        (U + V <= C, M + N <= C),
        (f.FloorDiv(U, 2) <= C, N <= 2 * C + 1),
        (U <= 20, N <= 20),
        (N <= C, N <= C),
        (sympy.Eq(f.PythonMod(C, 3), 0), sympy.Eq(f.PythonMod(C, 3), 0)),
        (N * M >= 3 * M, N >= 3),
    ],
)
def test_the_weakest_assumption_is_found(asked, expected):
    assert weakest_assumption(asked, OF_MASKS, HERE) == (expected, True)
    assert weakest_assumption(sympy.Not(asked), OF_MASKS, HERE) == (expected, False)


@pytest.mark.parametrize("asked", [sympy.Eq(U, 0), U > V, sympy.Eq(f.PythonMod(U, 2), 0), 2 * U > N])
def test_where_no_sizes_decide_there_is_none(asked):
    assert weakest_assumption(asked, OF_MASKS, HERE) is None


def test_it_holds_in_the_call_at_hand():
    assert weakest_assumption(U <= C, OF_MASKS, {**HERE, N: 10}) is None
    assert weakest_assumption(N <= C, OF_MASKS, {**HERE, N: 10}) == (C < N, False)


def test_only_the_sizes_that_are_given_are_spoken_of():
    assert weakest_assumption(U <= C, OF_MASKS, {C: 64}) == (C >= 64, True)
    assert weakest_assumption(U <= C, OF_MASKS, {M: 4}) is None


def test_what_is_found_decides_at_all_values():
    draw = random.Random(0)
    for _ in range(12):
        a, b, c = draw.choice((1, 2)), draw.choice((0, 1)), draw.randint(0, 3)
        asked = a * U + b * V + c <= C
        found = weakest_assumption(asked, OF_MASKS, {N: 2, M: 3, C: 14})
        assert found is not None and found.decides, asked
        for n, m, k in itertools.product((1, 2, 5, 9), (1, 3, 8), (1, 6, 12, 20)):
            if evaluate(found.condition, {N: n, M: m, C: k}):
                assert all(evaluate(asked, {U: u, V: v, C: k}) for u in range(n + 1) for v in range(m + 1))
            else:  # the weakest: there are data for which it does not hold
                assert not evaluate(asked, {U: n, V: m, C: k})


def test_a_search_spends_nothing_of_a_budget_from_outside():
    with budget(1):
        assert weakest_assumption(U <= C, OF_MASKS, HERE) is not None
        implies(U <= C, U <= C + 1, OF_MASKS)
        assert implies(U <= C, U <= C + 1, OF_MASKS) is None  # spent by the one before it
