"""The checks that mutants run against: the cases of existing tests called one by one, random expressions, sets of guards."""

import inspect
import random
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pytest
import sympy

from shapes.evaluation import evaluate
from tests.shapes import expressions as e
from tests.shapes import test_algebra, test_printing, test_simplify
from tests.shapes.equivalence.checks import disagreements, trace_disagreements
from tests.shapes.equivalence.table import GuardSet, drawn_sets, recorded_sets
from tests.shapes.equivalence.traced import Place, Run, Value, trace
from tests.shapes.expressions import RAISED, SYMBOLS, expression, outcome, python_value
from tests.shapes.solver import test_prove, test_prune, test_translate

SLOW = {
    "test_a_core_is_minimal_whatever_the_order",
    "test_the_text_is_the_same_in_every_process",
    "test_the_result_is_the_same_in_every_process",
    "test_z3_is_loaded_by_the_first_question_only",
    "test_threads_ask_at_the_same_time",
    "test_a_forked_child_asks_afresh",
}


class Check(NamedTuple):
    """A call that raises at a mistake."""

    name: str
    run: Callable[[], None]


def prepare() -> None:
    """What the checks share and no mutant changes."""
    recorded_sets(), drawn_sets()


def tests_of(module) -> list[Check]:
    """Every case of every test of a module that needs no hypothesis, and no fixture but monkeypatch."""
    found = []
    for name, function in vars(module).items():
        if name.startswith("test_") and callable(function) and name not in SLOW and not hasattr(function, "hypothesis"):
            marks = [mark for mark in getattr(function, "pytestmark", []) if mark.name == "parametrize"]
            cases = [_case(mark.args[0], value) for mark in marks for value in mark.args[1]] if marks else [{}]
            assert len(marks) <= 1, f"{name} has a product of cases"
            found += [Check(f"{name}{list(case.values()) or ''}", partial(_call, function, case)) for case in cases]
    return found


def _case(names, value) -> dict:
    several = not isinstance(names, str)
    return dict(zip(names, value, strict=True)) if several else {names: value}


def _call(function, case: dict) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(test_translate, "RANGE", [-4, -1, 0, 2, 3])
        patch.setattr(test_translate, "WIDE", [-33, -8, -1, 0, 1, 7, 100])
        function(**case, **({"monkeypatch": patch} if "monkeypatch" in inspect.signature(function).parameters else {}))


def seeded(check: Callable[[random.Random], None], seeds: int) -> list[Check]:
    return [Check(f"{check.__name__} {seed}", partial(lambda seed: check(random.Random(seed)), seed)) for seed in range(seeds)]


# -------------------------------------------------------------------------------------------- random expressions


def tree(rng: random.Random, operations, size: int):
    if size <= 0:
        return rng.choice([*SYMBOLS, rng.randint(-9, 9)])
    operation = rng.choice(operations)
    return operation, tuple(tree(rng, operations, size - rng.randint(1, 3)) for _ in range(operation.arity))


def point(rng: random.Random) -> dict:
    return {symbol: rng.choice([rng.randint(-20, 20), rng.randint(0, 5)]) for symbol in SYMBOLS}


def printing_is_exact(rng: random.Random) -> None:
    for number in range(12):
        drawn = tree(rng, e.INTEGER_OPERATIONS, rng.randint(1, 6))
        if number % 3 == 0:
            operation = rng.choice(e.FLOAT_OPERATIONS)
            drawn = operation, (drawn, tree(rng, e.INTEGER_OPERATIONS, 2))[: operation.arity]
        if number % 2:
            drawn = rng.choice(e.COMPARISONS), (drawn, tree(rng, e.INTEGER_OPERATIONS, 2))
        if outcome(expression, drawn) is RAISED:
            continue
        expr = expression(drawn)
        for _ in range(2):
            values = point(rng)
            assert outcome(test_printing.printed_value, expr, values) == outcome(evaluate, expr, values)


def algebra_is_exact(rng: random.Random) -> None:
    """Random expressions through the env's polynomials and laws, for sizes and for plain ints."""
    for number in range(10):
        run = Run()
        make = run.env.create_int if number % 2 else run.env.create_size
        hints = [rng.randint(2, 30) for _ in SYMBOLS]
        values = [Value(run, make(hint, Place(symbol.name))) for symbol, hint in zip(SYMBOLS, hints)]
        drawn = tree(rng, e.INTEGER_OPERATIONS, rng.randint(1, 6))
        if outcome(_through_env, drawn, run, dict(zip(SYMBOLS, values))) is RAISED:
            continue
        built = _through_env(drawn, run, dict(zip(SYMBOLS, values)))
        for _ in range(4):
            at = {s: rng.randint(-20, 20) if number % 2 else rng.randint(2, 40) for s in SYMBOLS}
            expected = outcome(python_value, drawn, at)
            if expected is not RAISED:
                symbols = {symbol.sympy: at[SYMBOLS[i]] for i, symbol in enumerate(run.env.symbols())}
                assert outcome(evaluate, _sympy(built), symbols) == expected


def _sympy(built):
    return built.expr.sympy if isinstance(built, Value) else sympy.sympify(built)


def _through_env(drawn, run: Run, values: dict):
    """The tree by the operators of the env."""
    if isinstance(drawn, sympy.Symbol):
        return values[drawn]
    if not isinstance(drawn, tuple):
        return drawn
    operation, args = drawn
    built = [_through_env(arg, run, values) for arg in args]
    if operation.name in ("max", "min") and any(isinstance(arg, Value) for arg in built):
        return getattr(run, operation.name)(*built)
    return operation.python(*built)


# ------------------------------------------------------------------------------------------------ sets of guards


def trace_agrees(guards: GuardSet) -> None:
    wrong, _ = trace_disagreements(trace(guards), 12)
    assert not wrong


def set_agrees(guards: GuardSet) -> None:
    wrong, _, _ = disagreements(guards, 25)
    assert not wrong


def on_sets(check: Callable[[GuardSet], None], every: int) -> list[Check]:
    return [Check(f"{check.__name__} {guards.name}", partial(check, guards)) for guards in recorded_sets(every)]


SOLVER = [*tests_of(test_translate), *tests_of(test_prove), *on_sets(set_agrees, 9)]
BATTERIES: dict[str, list[Check]] = {
    "shapes.simplify": [
        *tests_of(test_simplify),
        *tests_of(test_algebra),
        *seeded(algebra_is_exact, 20),
        *on_sets(trace_agrees, 4),
    ],
    "shapes.printing": [*tests_of(test_printing), *seeded(printing_is_exact, 20), *on_sets(set_agrees, 9)],
    "shapes.solver.pruning": [*tests_of(test_prune), *on_sets(set_agrees, 9)],
    **dict.fromkeys(["shapes.solver.translate", "shapes.solver.bits", "shapes.solver.bounds"], SOLVER),
}
