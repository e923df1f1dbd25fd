"""The weakest assumption on known sizes that decides a condition, found among templates.

A condition such as `u0 <= s1`, where `u0` depends on data and lies in `0 <= u0 <= s0`, holds for some data and not for others.
With `s0 <= s1` it holds for all. An assumption is a relation of at most three sizes; it has to hold in the call at hand. Weakest
means: every other template that decides the condition implies it. If two assumptions decide it and neither implies the other,
there is no weakest one.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sympy
from sympy import Symbol

from shapes.solver.problem import QUICK_DIVISOR, RLIMIT, budget, holds_at
from shapes.solver.prove import Question, implies
from shapes.sympy_functions import PythonMod

STEPS = 10 * RLIMIT  # of z3, for one search
MOST_SIZES = 6  # sizes that templates are filled with; those that the condition names come first
LARGEST = 1 << 62


class DecidingAssumption(NamedTuple):
    """Where `condition`, a relation of sizes, holds, the truth of what was asked is `decides`."""

    condition: Any
    decides: bool


def weakest_assumption(
    asked: Any, facts: Sequence[Any], here: Mapping[Symbol, int], *, steps: int = STEPS
) -> DecidingAssumption | None:
    """The weakest assumption that decides `asked`, given the facts; None if there is none, or none was found in so many steps.

    `here`: the sizes that the assumption may use, each with its value in the call at hand. `steps`: of z3, for the whole search;
    they do not count for a budget that the caller has set.

    ```python
    u, n, c = sympy.symbols("u n c", integer=True)
    found = weakest_assumption(u <= c, [0 <= u, u <= n], {n: 3, c: 8})
    assert found == (n <= c, True)
    ```
    """
    with budget(steps, independent=True):
        pinned = [sympy.Eq(size, value) for size, value in here.items()]
        for decides, goal in ((True, asked), (False, sympy.Not(asked))):
            if implies(pinned, goal, facts):  # else nothing that holds in this call decides it so
                found = _Search(goal, facts, here).weakest()
                return None if found is None else DecidingAssumption(found, decides)
    return None


@dataclasses.dataclass(frozen=True)
class _Form:
    """`sum(coefficient * term) <= bound`. `bound` is the value of the sum in the call at hand: a smaller one would not hold
    there."""

    terms: tuple[tuple[Any, int], ...]
    bound: int

    def at_most(self, bound: int) -> Any:
        """The relation for another bound, as a person would write it: each term on the side where its coefficient is positive, no
        negative constant, `<` in place of `<= ... - 1`."""
        left = sympy.Add(*(term * c for term, c in self.terms if c > 0))
        right = sympy.Add(*(-term * c for term, c in self.terms if c < 0))
        if left == 0:
            return right >= -bound
        if right == 0 or bound > 0:
            return left <= right + bound
        return left < right - (-bound - 1) if bound == -1 else left - bound <= right


class _Search:
    def __init__(self, goal: Any, facts: Sequence[Any], here: Mapping[Symbol, int]) -> None:
        self.goal, self.facts = goal, tuple(facts)
        first = goal.free_symbols
        self.here = {s: here[s] for s in sorted(here, key=lambda s: (s not in first, s.name))[:MOST_SIZES]}
        self.refuting: list[dict[Symbol, int]] = []  # values at which the facts hold and the goal does not
        self.numbers = sorted({int(n) for n in goal.atoms(sympy.Integer) if 1 < abs(int(n)) < LARGEST})

    def weakest(self) -> Any:
        found = list(dict.fromkeys(self._deciding()))
        for each in found:
            if all(other is each or implies(other, each, self.facts) for other in found):
                return each
        return None

    def _decides(self, condition: Any) -> bool:
        """Whether the goal follows from the condition and the facts. A counterexample is kept, and tried first on later
        conditions."""
        if any(holds_at(condition, values) for values in self.refuting):
            return False
        question = Question(condition, self.goal, self.facts)
        answer = question.ask(RLIMIT // QUICK_DIVISOR, fresh=False)
        if answer.values is not None:
            self.refuting.append(answer.values)
        return (question.decide(RLIMIT) if answer.status == "unknown" else answer.status) == "unsat"

    def _deciding(self) -> Iterator[Any]:
        """The templates that decide the goal, the simplest first: `weakest` returns the first of those that mean the same."""
        for form in self._forms():
            if self._decides(form.at_most(form.bound)):
                yield form.at_most(self._largest_bound(form))
        for condition in (*self._equalities(), *self._divisions(), *self._without_data()):
            if holds_at(condition, dict(self.here)) and self._decides(condition):
                yield condition

    # -- templates -----------------------------------------------------------------------------------------------

    def _forms(self) -> Iterator[_Form]:
        sizes = list(self.here)
        for a in sizes:
            yield from self._both_ways((a, 1))
        for a, b in itertools.combinations(sizes, 2):
            yield from self._both_ways((a, 1), (b, -1))
        for a, b in itertools.combinations(sizes, 2):
            for number in self.numbers:
                yield from self._both_ways((a, number), (b, -1))
                yield from self._both_ways((a, 1), (b, -number))
            yield from self._both_ways((a, 1), (b, 1))
            yield from self._both_ways((a * b, 1))
        for a, b in itertools.combinations(sizes, 2):
            for c in sizes:
                if c not in (a, b):
                    yield from self._both_ways((a, 1), (b, 1), (c, -1))
                    yield from self._both_ways((a * b, 1), (c, -1))

    def _both_ways(self, *terms: tuple[Any, int]) -> Iterator[_Form]:
        for sign in (1, -1):
            signed = tuple((term, sign * c) for term, c in terms)
            yield _Form(signed, sum(c * int(term.xreplace(self.here)) for term, c in signed))

    def _equalities(self) -> Iterator[Any]:
        sizes = list(self.here)
        yield from (sympy.Eq(a, b) for a, b in itertools.combinations(sizes, 2))
        for a, b in itertools.combinations(sizes, 2):
            for c in sizes:
                if c not in (a, b):
                    yield sympy.Eq(a + b, c)
                    yield sympy.Eq(a * b, c)

    def _divisions(self) -> Iterator[Any]:
        for a in self.here:
            yield from (sympy.Eq(PythonMod(a, abs(number)), 0) for number in self.numbers)
            yield from (sympy.Eq(PythonMod(a, b), 0) for b in self.here if b is not a)

    def _without_data(self) -> Iterator[Any]:
        """The goal, with each value that depends on data replaced by one of its bounds. That is the weakest condition if the goal
        is monotone in the value."""
        unknown = sorted(self.goal.free_symbols - set(self.here), key=lambda s: s.name)
        choices = [list(itertools.islice(dict.fromkeys(self._bounds(s)), 4)) for s in unknown]
        for values in itertools.islice(itertools.product(*choices), 16):
            condition = self.goal.xreplace(dict(zip(unknown, values, strict=True)))
            if condition not in (sympy.true, sympy.false):
                yield condition

    def _bounds(self, symbol: Symbol) -> Iterator[Any]:
        """The expressions over the sizes that facts compare the value with."""
        for fact in self.facts:
            if isinstance(fact, sympy.core.relational.Relational):
                for side, other in ((fact.lhs, fact.rhs), (fact.rhs, fact.lhs)):
                    if side == symbol and other.free_symbols <= set(self.here):
                        yield other

    # -- bounds --------------------------------------------------------------------------------------------------

    def _largest_bound(self, form: _Form) -> int:
        """The largest bound at which the relation still decides the goal, by doubling and then bisection."""
        low, step = form.bound, 1
        while low + step < LARGEST and self._decides(form.at_most(low + step)):
            low, step = low + step, 2 * step
        high = low + step
        while high - low > 1:
            middle = (low + high) // 2
            if self._decides(form.at_most(middle)):
                low = middle
            else:
                high = middle
        return low


__all__ = ["DecidingAssumption", "weakest_assumption"]
