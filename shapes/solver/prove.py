"""Questions about sets of guards: implication, equivalence, witnesses, forced values.

Every argument that means "these hold" is one SymPy boolean or a sequence of which all are meant. True and False are
proved; None says that it is not known. A witness has been checked by Python's own arithmetic.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import sympy
from sympy import Symbol

from shapes.solver.problem import RLIMIT, Assumption, Problem, Status, holds_at, statements

Guards = Any  # a SymPy boolean, or a sequence of them


class Answer(NamedTuple):
    """ "sat" comes with values for the symbols, "unsat" is a proof that there are none, "unknown" is neither."""

    status: Status
    values: dict[Symbol, int] | None = None


def satisfy(holds: Guards, fails: Guards = (), *, facts: Guards = (), rlimit: int = RLIMIT) -> Answer:
    """Integers at which `facts` and `holds` hold and not all of `fails` does (if `fails` is given)."""
    facts, wanted, broken = statements(facts), statements(holds), statements(fails)
    problem = Problem(facts, rlimit=rlimit)
    assumptions = [Assumption(expr) for expr in wanted]
    if broken:
        assumptions.append(Assumption(sympy.And(*broken, evaluate=False), negated=True))
    return _answer(problem, assumptions, (*facts, *wanted), broken)


def _answer(problem: Problem, assumptions: Sequence[Assumption], hold: Sequence[Any], broken: Sequence[Any]) -> Answer:
    status = problem.ask(assumptions)
    if status != "sat":
        return Answer(status)
    values = problem.values()
    for expr in (*hold, *broken):
        for symbol in sorted(expr.free_symbols, key=lambda s: s.name):
            values.setdefault(symbol, 0)
    shown = all(holds_at(expr, values) for expr in hold)
    if broken:
        shown = shown and not all(holds_at(expr, values) for expr in broken)
    return Answer("sat", values) if shown else Answer("unknown")


def implies(a: Guards, b: Guards, facts: Guards = (), *, rlimit: int = RLIMIT) -> bool | None:
    """Does b hold wherever a and the facts hold?"""
    wanted = statements(b)
    if not wanted:
        return True
    return _negated(satisfy(a, wanted, facts=facts, rlimit=rlimit))


def equivalent(a: Guards, b: Guards, facts: Guards = (), *, rlimit: int = RLIMIT) -> bool | None:
    """Do a and b hold at the same values, of those at which the facts hold?"""
    there = implies(a, b, facts, rlimit=rlimit)
    if there is False:
        return False
    back = implies(b, a, facts, rlimit=rlimit)
    if back is False:
        return False
    return True if there and back else None


def disjoint(a: Guards, b: Guards, facts: Guards = (), *, rlimit: int = RLIMIT) -> bool | None:
    """Is there no value at which a, b and the facts hold?"""
    return _negated(satisfy((*statements(a), *statements(b)), facts=facts, rlimit=rlimit))


def witness(holds: Guards, fails: Guards = (), *, facts: Guards = (), rlimit: int = RLIMIT) -> dict[Symbol, int] | None:
    """Values at which `holds` holds and `fails` does not; None if there are none or none was found (see `satisfy`)."""
    return satisfy(holds, fails, facts=facts, rlimit=rlimit).values


def forced_value(facts: Guards, symbol: Symbol, *, rlimit: int = RLIMIT) -> int | None:
    """The one value that the facts leave for the symbol; None if there is another one, or it is not known."""
    facts = statements(facts)
    problem = Problem(facts, rlimit=rlimit)
    if problem.ask(()) != "sat":
        return None
    value = problem.values().get(symbol)
    if value is None or problem.ask([Assumption(sympy.Ne(symbol, value))]) != "unsat":
        return None
    return value


def _negated(answer: Answer) -> bool | None:
    return {"unsat": True, "sat": False, "unknown": None}[answer.status]
