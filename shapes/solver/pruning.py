"""Removes guards that the others imply.

Of two bounds on one term the weaker one is dropped without z3. Another guard is dropped only if z3 has proved twice that the
facts and the kept guards imply it: in the incremental problem that found it, and again, from its reasons alone, in another
problem. A guard is kept if z3 does not know, the budget is spent, or the second proof fails. Recorded guards are those that one
trace has made. They never contradict each other, since the traced call met all of them; of a contradictory set more guards may be
kept than necessary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sympy
from sympy import Symbol
from sympy.core.relational import Relational

from shapes.printing import readable_sides, reading_order
from shapes.python_function import is_integral
from shapes.solver.problem import QUICK_DIVISOR, RLIMIT, Assumption, Problem, Status, statement, statements

MOST_HARD_QUESTIONS = 10  # of one pruning: those that z3 leaves open at 1 / QUICK_DIVISOR of the limit, and that get all of it


@dataclass(frozen=True)
class Conjunct:
    """A conjunct of a recorded guard, and the index of that guard in the argument of `prune`."""

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
    `questions` is how often z3 was asked.
    """

    kept: tuple[Any, ...]
    indices: tuple[int, ...]
    dropped: tuple[Dropped, ...]
    certified: bool
    unknown: int
    questions: int


def prune(guards: Sequence[Any], facts: Sequence[Any] = (), *, rlimit: int = RLIMIT) -> PruneResult:
    """Drops every guard that the others and the facts imply.

    `guards`: SymPy booleans over integer symbols. `facts`: what holds at every call anyway, such as the declared range of a size.
    `rlimit`: steps of z3 for one question; all of them may take about `MOST_HARD_QUESTIONS` times as many. Raises TypeError for
    what is no SymPy boolean.

    ```python
    x = sympy.Symbol("x", integer=True)
    result = prune([x >= 3, sympy.Ne(x, 1)])
    assert result.kept == (x >= 3,) and result.dropped[0].by == (0,)
    ```
    """
    facts = statements(tuple(facts))
    recorded, dropped = _distinct_conjuncts(guards, facts)
    recorded, weaker = _tightest_bounds(recorded, facts)
    search = _Search(_without_isolated_bounds(recorded, facts), facts, rlimit)
    search.run()
    gone = {guard for guard, _ in search.implied}
    kept = [guard for guard in recorded if guard not in gone]
    dropped += weaker + [Dropped(guard.expr, guard.index, tuple(g.index for g in by)) for guard, by in search.implied]
    return PruneResult(
        tuple(guard.expr for guard in kept),
        tuple(guard.index for guard in kept),
        tuple(sorted(dropped, key=lambda drop: drop.index)),
        search.certified,
        search.unknown,
        search.questions,
    )


# ------------------------------------------------------------------------------------------------- without z3


def _distinct_conjuncts(guards: Sequence[Any], facts: Sequence[Any]) -> tuple[list[Conjunct], list[Dropped]]:
    """The conjuncts in reading order, without True, repeats and facts."""
    given = {sympy.true, *facts}
    first: dict[Any, Conjunct] = {}
    dropped = []
    for index, guard in enumerate(guards):
        for expr in sympy.And.make_args(statement(guard)):
            if expr in given:
                dropped.append(Dropped(expr, index, ()))
            elif expr in first:
                dropped.append(Dropped(expr, index, (first[expr].index,)))
            else:
                first[expr] = Conjunct(expr, index)
    return sorted(first.values(), key=lambda guard: reading_order(guard.expr)), dropped


class _Bound(NamedTuple):
    """sign * term >= value, of integers; the sign is 1 for a bound from below, -1 for one from above."""

    term: Any
    sign: int
    value: int


def _bound(expr: Any) -> _Bound | None:
    """None for what is no bound of an integer term by a constant; also for an equation, of which no side is weaker."""
    if not isinstance(expr, Relational):
        return None
    term, operator, value = readable_sides(expr)
    if operator in ("==", "!=") or not (value.is_Integer and is_integral(term)):
        return None
    sign = 1 if operator in (">", ">=") else -1
    return _Bound(term, sign, sign * int(value) + (operator in (">", "<")))


def _tightest_bounds(guards: Sequence[Conjunct], facts: Sequence[Any]) -> tuple[list[Conjunct], list[Dropped]]:
    """The guards without bounds on a term for which a fact or another guard gives the same or a tighter bound."""
    known: dict[tuple[Any, int], tuple[int, Conjunct | None]] = {}  # the tightest value, and the guard; None: a fact
    bounds = [(_bound(fact), None) for fact in facts] + [(_bound(guard.expr), guard) for guard in guards]
    for bound, guard in bounds:
        if bound is not None:
            before = known.get((bound.term, bound.sign))
            if before is None or bound.value > before[0]:
                known[bound.term, bound.sign] = bound.value, guard
    kept, dropped = [], []
    for bound, guard in bounds[len(facts) :]:
        assert guard is not None
        best = guard if bound is None else known[bound.term, bound.sign][1]
        if best is guard:
            kept.append(guard)
        else:
            dropped.append(Dropped(guard.expr, guard.index, () if best is None else (best.index,)))
    return kept, dropped


def _without_isolated_bounds(guards: Sequence[Conjunct], facts: Sequence[Any]) -> list[Conjunct]:
    """The guards without bounds on symbols that occur in bounds only. After `_tightest_bounds` nothing implies these."""
    simple = {guard for guard in guards if _is_bound_of_symbol(guard.expr)}
    involved = [fact for fact in facts if not _is_bound_of_symbol(fact)] + [g.expr for g in guards if g not in simple]
    symbols = set().union(*(expr.free_symbols for expr in involved))
    return [guard for guard in guards if guard.expr.free_symbols & symbols]


def _is_bound_of_symbol(expr: Any) -> bool:
    bound = _bound(expr)
    return bound is not None and isinstance(bound.term, Symbol)


# ------------------------------------------------------------------------------------------------------ by z3


class _Search:
    """Asks of each guard, the most involved first, whether the rest implies it.

    `implied` are such guards in the order of dropping, each with guards that imply it and that were still there.
    """

    def __init__(self, guards: list[Conjunct], facts: Sequence[Any], rlimit: int) -> None:
        self.guards = guards
        self.facts = facts
        self.rlimit = rlimit
        self.implied: list[tuple[Conjunct, list[Conjunct]]] = []
        self.certified = True
        self.unknown = 0
        self.questions = 0
        self.hard = 0  # questions that were asked with the whole limit

    def run(self) -> None:
        """Finds and certifies; nothing is implied if z3 contradicts itself."""
        if not self.guards:
            return
        problem = self._quick_problem()
        self._drop(problem)
        if any(not by for _, by in self.implied) and problem.ask(()) == "unsat":
            self.implied = []  # from facts that contradict each other everything follows, and nothing is dropped for that
        if self.implied:
            self.certified = self._certify(self._quick_problem(problem))
        if not self.certified:
            self.implied = []

    def _quick_problem(self, like: Problem | None = None) -> Problem:
        """The facts with a small limit for each question. `like`: another such problem, whose translated terms are used again."""
        return Problem(self.facts, rlimit=self.rlimit // QUICK_DIVISOR, translator=None if like is None else like.translator)

    def _drop(self, problem: Problem) -> None:
        kept = list(self.guards)
        for guard in reversed(self.guards):  # they are in reading order: the last has most symbols
            rest = [other for other in kept if other is not guard]
            status, by = self._ask(problem, guard, rest)
            if status == "unsat":
                self.implied.append((guard, by))
                kept = rest
            self.unknown += status == "unknown"

    def _ask(self, problem: Problem, guard: Conjunct, by: list[Conjunct]) -> tuple[Status, list[Conjunct]]:
        """Can the guard fail where all of `by` hold? If not ("unsat"), also those of `by` that the proof needs.

        What z3 leaves open is asked again with the whole limit, in a fresh context. After `MOST_HARD_QUESTIONS` of these every
        question is "unknown" unasked.
        """
        if self.hard >= MOST_HARD_QUESTIONS:
            return "unknown", []
        assumptions = [*(Assumption(other.expr) for other in by), Assumption(guard.expr, negated=True)]
        self.questions += 1
        status = problem.ask(assumptions)
        if status == "unknown":
            self.hard += 1
            problem = Problem(self.facts, rlimit=self.rlimit, fresh=True)
            status = problem.ask(assumptions)
        used = problem.unsat_core() if status == "unsat" else ()
        return status, [other for other in by if Assumption(other.expr) in used]

    def _certify(self, problem: Problem) -> bool:
        """Proves each drop again, from its own reasons only, in a problem that has seen nothing else. False if one is wrong.

        What cannot be proved again is not dropped. Why that makes kept and recorded guards equivalent: the reasons of a drop were
        still there when it was made, so the last one follows from what is kept, then the one before it, and so on. The other
        direction is plain, since every kept guard is a recorded one.
        """
        proved = []
        gone: set[Conjunct] = set()
        for guard, by in self.implied:
            gone.add(guard)
            status = "sat" if gone.intersection(by) else self._ask(problem, guard, by)[0]
            if status == "sat":
                return False
            if status == "unsat":
                proved.append((guard, by))
        self.unknown += len(self.implied) - len(proved)
        self.implied = proved
        return True
