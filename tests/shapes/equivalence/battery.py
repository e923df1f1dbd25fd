"""The checks that mutants run against: existing tests called one by one, and random expressions. Quick ones first."""

import inspect
import random
from collections.abc import Callable

import pytest
import sympy

from shapes.evaluation import evaluate
from tests.shapes import expressions as e
from tests.shapes import test_printing
from tests.shapes.equivalence.checks import disagreements, trace_disagreements
from tests.shapes.equivalence.table import recorded_sets
from tests.shapes.equivalence.traced import Place, Run, Value, trace
from tests.shapes.expressions import RAISED, SYMBOLS, expression, outcome, python_value
from tests.shapes.solver import test_prove, test_prune, test_translate

SLOW = {
    "test_a_core_is_minimal_whatever_the_order",
    "test_the_text_is_the_same_in_every_process",
    "test_z3_is_loaded_by_the_first_question_only",
    "test_threads_ask_at_the_same_time",
    "test_a_forked_child_asks_afresh",
}


def run(module: str) -> None:
    """Raises at the first mistake that is noticed."""
    for check in BATTERIES[module]:
        check()


def small_grid() -> None:
    test_translate.RANGE = [-4, -1, 0, 2, 3]
    test_translate.WIDE = [-33, -8, -1, 0, 1, 7, 100]


def tests_of(module) -> Callable[[], None]:
    """All tests of a module that need no fixture and no hypothesis."""

    def call() -> None:
        for name, function in vars(module).items():
            if name.startswith("test_") and callable(function) and name not in SLOW:
                _call(function)

    return call


def _call(function) -> None:
    if hasattr(function, "hypothesis") or any(mark.name == "full" for mark in getattr(function, "pytestmark", [])):
        return
    if list(inspect.signature(function).parameters) == ["monkeypatch"]:
        with pytest.MonkeyPatch.context() as patch:
            function(patch)
        return
    cases = [mark.args for mark in getattr(function, "pytestmark", []) if mark.name == "parametrize"]
    if not cases and not inspect.signature(function).parameters:
        function()
    for names, values in cases[:1]:
        several = not isinstance(names, str)
        for value in values:
            function(*value) if several else function(value)


# -------------------------------------------------------------------------------------------- random expressions


def tree(rng: random.Random, operations, size: int):
    if size <= 0:
        return rng.choice([*SYMBOLS, rng.randint(-9, 9)])
    operation = rng.choice(operations)
    return operation, tuple(tree(rng, operations, size - rng.randint(1, 3)) for _ in range(operation.arity))


def point(rng: random.Random) -> dict:
    return {symbol: rng.choice([rng.randint(-20, 20), rng.randint(0, 5)]) for symbol in SYMBOLS}


def printing_is_exact(count: int = 250) -> None:
    rng = random.Random(1)
    for number in range(count):
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


def algebra_is_exact(count: int = 200) -> None:
    """Random expressions through the env's polynomials and laws, for sizes and for plain ints."""
    rng = random.Random(2)
    for number in range(count):
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


def traces_agree() -> None:
    for guards in recorded_sets(every=2):
        wrong, _ = trace_disagreements(trace(guards), 12)
        assert not wrong


def sets_agree() -> None:
    for guards in recorded_sets(every=9):
        wrong, _, _ = disagreements(guards, 25)
        assert not wrong


BATTERIES: dict[str, list[Callable[[], None]]] = {
    "shapes.simplify": [algebra_is_exact, traces_agree],
    "shapes.static": [algebra_is_exact, traces_agree],
    "shapes.printing": [tests_of(test_printing), printing_is_exact, sets_agree],
    "shapes.solver.pruning": [tests_of(test_prune), sets_agree],
    **dict.fromkeys(
        ["shapes.solver.translate", "shapes.solver.bits", "shapes.solver.bounds"],
        [small_grid, tests_of(test_translate), tests_of(test_prove), sets_agree],
    ),
}
