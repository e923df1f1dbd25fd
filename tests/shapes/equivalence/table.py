"""The sets of guards: every program at every one of its calls, and sets that hypothesis has drawn."""

import functools
import inspect
from dataclasses import dataclass
from typing import Any

import sympy
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from shapes.evaluation import evaluate
from tests.shapes import expressions as e
from tests.shapes.equivalence import model_programs, operation_programs  # noqa: F401  (they register themselves)
from tests.shapes.equivalence.families import FAMILIES
from tests.shapes.equivalence.recording import Program, record, same_path
from tests.shapes.expressions import RAISED, SYMBOLS, expression, outcome

DRAWN = 60
SIGNED = {"signs"}  # programs whose sizes are plain ints


@dataclass(frozen=True)
class GuardSet:
    """Recorded guards with the facts that hold anyway; `holds` is the truth, by plain Python."""

    name: str
    symbols: tuple[sympy.Symbol, ...]
    hints: tuple[int, ...]
    guards: tuple[Any, ...]
    facts: tuple[Any, ...]
    program: Program | None = None
    decisions: tuple[bool, ...] = ()

    @property
    def is_of_integers(self) -> bool:
        return not self.name.startswith("float")

    def holds(self, sizes: tuple[int, ...]) -> bool | None:
        """None where the program takes the traced path and then raises."""
        if self.program is not None:
            return same_path(self.program, list(self.decisions), sizes)
        values = dict(zip(self.symbols, sizes))
        return all(outcome(evaluate, guard, values) == ("bool", True, 0) for guard in self.guards)

    def admits(self, sizes: tuple[int, ...]) -> bool:
        return all(bool(evaluate(fact, dict(zip(self.symbols, sizes)))) for fact in self.facts)


def _recorded(family: str, function: Program, hints: tuple[int, ...]) -> GuardSet:
    names = list(inspect.signature(function).parameters)[1:]
    recorder = record(function, dict(zip(names, hints)))
    symbols = tuple(sympy.Symbol(name, integer=True) for name in names)
    facts = [symbol >= (2 if hint >= 2 else 0) for symbol, hint in zip(symbols, hints)]
    return GuardSet(
        f"{family}-{function.__name__}-{'x'.join(map(str, hints))}",
        symbols,
        hints,
        tuple(recorder.guards),
        () if function.__name__ in SIGNED else tuple(facts),
        function,
        tuple(recorder.decisions),
    )


@functools.cache
def recorded_sets(every: int = 1) -> list[GuardSet]:
    """The recorded sets: all of them, or one in so many."""
    calls = [
        (family, function, hints) for family, programs in FAMILIES.items() for function, calls in programs for hints in calls
    ]
    return [_recorded(*call) for call in calls[::every]]


@functools.cache
def drawn_sets() -> list[GuardSet]:
    """Relations drawn by hypothesis, each turned so that it holds at a drawn point."""
    found: list[GuardSet] = []

    @seed(20260)
    @settings(
        max_examples=DRAWN,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(e.small_relations, min_size=2, max_size=7), st.tuples(*[st.integers(2, 40)] * 3))
    def draw(trees, hints):
        values = dict(zip(SYMBOLS, hints))
        guards = [guard for guard in (_turned(tree, values) for tree in trees) if guard is not None]
        facts = tuple(symbol >= 2 for symbol in SYMBOLS)
        found.append(GuardSet(f"drawn-{len(found)}", SYMBOLS, hints, tuple(guards), facts))

    draw()
    return found


def _turned(tree: Any, values: dict[sympy.Symbol, int]) -> Any:
    if outcome(expression, tree) is RAISED:
        return None
    relation = expression(tree)
    truth = outcome(evaluate, relation, values)
    if truth is RAISED:
        return None
    return relation if truth[1] else sympy.Not(relation)


def all_sets() -> list[GuardSet]:
    return recorded_sets() + drawn_sets()
