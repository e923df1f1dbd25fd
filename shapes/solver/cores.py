"""The facts that together force something: a minimal unsatisfiable core."""

from collections.abc import Sequence
from typing import Any

from shapes.solver.problem import RLIMIT, Assumption, Problem, statement


def core(facts: Sequence[Any], goal: Any, *, given: Sequence[Any] = (), rlimit: int = RLIMIT) -> list[int] | None:
    """Indices of facts that together imply the goal, none of which can be left out; None if it is not proved.

    With the goal False: facts that contradict each other. The result has no indices for `given`, which is assumed. If z3 cannot
    tell whether a fact is needed, it stays. The answer is the same in every process.
    """
    stated = [statement(fact) for fact in facts]
    problem = Problem(given, rlimit=rlimit, fresh=True)
    denial = Assumption(statement(goal), negated=True)
    if problem.ask([*map(Assumption, stated), denial]) != "unsat":
        return None
    needed = _without_repeats(stated, problem.unsat_core())
    for index in list(needed):
        rest = [i for i in needed if i != index]
        if problem.ask([*(Assumption(stated[i]) for i in rest), denial]) == "unsat":
            used = problem.unsat_core()
            needed = [i for i in rest if Assumption(stated[i]) in used]
    return needed


def _without_repeats(stated: Sequence[Any], used: set[Assumption]) -> list[int]:
    first = {expr: index for index, expr in reversed(list(enumerate(stated)))}
    return sorted(index for expr, index in first.items() if Assumption(expr) in used)
