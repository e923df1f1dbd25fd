"""The smallest part of a set of guards that still says all of it.

A guard goes only if the facts and the guards that stay imply it, and z3 has said so twice: once in the incremental
problem that finds it, once more in a fresh one. Whatever is unknown, over budget or does not repeat stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sympy

from shapes.printing import reading_order
from shapes.solver.problem import QUICK, RLIMIT, Assumption, Problem, Status, statement, statements

BUDGET = 10  # of a whole pruning, in limits of one question
LOOK_UP = 4  # questions between two looks at what is spent


@dataclass(frozen=True)
class Guard:
    """A conjunct of a recorded guard, and the index of that guard."""

    expr: Any
    index: int


@dataclass(frozen=True)
class Dropped:
    """A conjunct that is implied: by the guards of these indices (z3's choice among sufficient ones) and the facts."""

    expr: Any
    index: int
    by: tuple[int, ...]


@dataclass(frozen=True)
class PruneResult:
    """`kept` and `indices` run in parallel, in reading order; an index is that of the recorded guard.

    `certified`: kept and recorded are proved equivalent, given the facts. Were z3 to contradict itself, all guards
    would be kept and this be False. `unknown` counts guards of which z3 could not tell whether they are implied;
    `questions` and `steps` are what it cost.
    """

    kept: tuple[Any, ...]
    indices: tuple[int, ...]
    dropped: tuple[Dropped, ...]
    certified: bool
    unknown: int
    questions: int = 0
    steps: int = 0


def prune(guards: Sequence[Any], facts: Sequence[Any] = (), *, rlimit: int = RLIMIT) -> PruneResult:
    """Drop every guard that the others and the facts imply; `rlimit` bounds one question, ten of it the whole."""
    facts = statements(tuple(facts))
    recorded, same = _distinct(guards, facts)
    if not recorded:
        return PruneResult((), (), tuple(same), certified=True, unknown=0)
    search = _Search(recorded, facts, rlimit // QUICK)
    if not (search.run() and not search.unknown):
        search = _Search(recorded, facts, rlimit, thorough=True)
        search.run()
    gone = {guard for guard, _ in search.implied}
    kept = [guard for guard in recorded if guard not in gone]
    dropped = same + [Dropped(guard.expr, guard.index, tuple(g.index for g in by)) for guard, by in search.implied]
    return PruneResult(
        tuple(guard.expr for guard in kept),
        tuple(guard.index for guard in kept),
        tuple(sorted(dropped, key=lambda drop: drop.index)),
        search.certified,
        search.unknown,
        search.questions,
        search.steps,
    )


def _distinct(guards: Sequence[Any], facts: Sequence[Any]) -> tuple[list[Guard], list[Dropped]]:
    """The conjuncts in reading order, without True, repeats and facts; what is gone needs no proof."""
    given = set(facts)
    first: dict[Any, Guard] = {}
    dropped = []
    for index, guard in enumerate(guards):
        for expr in sympy.And.make_args(statement(guard)):
            if expr is sympy.true or expr in given:
                dropped.append(Dropped(expr, index, ()))
            elif expr in first:
                dropped.append(Dropped(expr, index, (first[expr].index,)))
            else:
                first[expr] = Guard(expr, index)
    return sorted(first.values(), key=lambda guard: reading_order(guard.expr)), dropped


class _Search:
    """Asks of each guard, the most involved first, whether the rest implies it.

    `implied` are such guards in the order of dropping, each with guards that imply it and that were still there.
    """

    def __init__(self, guards: list[Guard], facts: Sequence[Any], rlimit: int, *, thorough: bool = False) -> None:
        self.guards = guards
        self.facts = facts
        self.rlimit = rlimit
        self.thorough = thorough
        self.problem = Problem(facts, rlimit=rlimit, fresh=thorough)
        self.start = self.problem.steps()
        self.implied: list[tuple[Guard, list[Guard]]] = []
        self.certified = True
        self.unknown = 0
        self.questions = 0
        self.steps = 0

    def run(self) -> bool:
        """Finds and certifies; False, and nothing is implied, if z3 contradicts itself."""
        if not self._contradictory():
            self._drop()
            self.certified = self._certify()
        if not self.certified:
            self.implied = []
        self._count()
        return self.certified

    def _contradictory(self) -> bool:
        """From facts that contradict each other everything follows, and nothing should be dropped for that."""
        self.questions += 1
        return self.problem.ask(()) == "unsat"

    def _drop(self) -> None:
        staying = list(self.guards)
        for guard in reversed(self.guards):
            rest = [other for other in staying if other is not guard]
            by = self._implied_by(guard, rest)
            if by is not None:
                self.implied.append((guard, by))
                staying = rest

    def _implied_by(self, guard: Guard, rest: list[Guard]) -> list[Guard] | None:
        if self._is_spent():
            self.unknown += 1
            return None
        self.questions += 1
        assumptions = [*(Assumption(other.expr) for other in rest), Assumption(guard.expr, negated=True)]
        problem = self.problem
        status = problem.ask(assumptions)
        if status == "unknown" and self.thorough:
            problem = self._alone()
            status = problem.ask(assumptions)
        if status == "unsat":
            used = problem.used()
            return [other for other in rest if Assumption(other.expr) in used]
        self.unknown += status == "unknown"
        return None

    def _alone(self) -> Problem:
        """A solver that has not worked on the guards dropped before."""
        return Problem(self.facts, rlimit=self.rlimit, translator=self.problem.translator)

    def _is_spent(self) -> bool:
        """Looked up now and then only, as it costs as much as a question."""
        if self.questions % LOOK_UP == 0:
            self._count()
        return self.steps > BUDGET * self.rlimit

    def _count(self) -> None:
        self.steps = (self.problem.steps() - self.start) % 2**32

    def _certify(self) -> bool:
        """Every drop proved again from its own reasons, by a solver that has seen nothing else; False if one is wrong.

        What cannot be proved again is not dropped. The reasons of a drop stayed at least until then, so taken from the
        last to the first each follows from what is kept. Kept guards being recorded ones, this is the equivalence in
        both directions.
        """
        if not self.implied:
            return True
        problem = self._alone()
        proved = []
        gone: set[Guard] = set()
        for guard, by in self.implied:
            gone.add(guard)
            status: Status = "sat" if gone.intersection(by) else self._again(problem, guard, by)
            if status == "unknown" and self.thorough:  # to know more can make it easier
                status = self._again(problem, guard, [other for other in self.guards if other not in gone])
            if status == "sat":
                return False
            if status == "unsat":
                proved.append((guard, by))
        self.unknown += len(self.implied) - len(proved)
        self.implied = proved
        return True

    def _again(self, problem: Problem, guard: Guard, by: list[Guard]) -> Status:
        self.questions += 1
        assumptions = [*(Assumption(other.expr) for other in by), Assumption(guard.expr, negated=True)]
        status = problem.ask(assumptions)
        return self._alone().ask(assumptions) if status == "unknown" and self.thorough else status
