"""Questions about sets of guards: implication, equivalence, witnesses, forced values.

An argument of type `Guards` is a SymPy boolean or a sequence of them, all of which are meant. True and False are proved; None
means not known. A witness has been checked by Python's arithmetic.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import sympy
from sympy import Symbol

from shapes.solver.problem import QUICK_DIVISOR, RLIMIT, Assumption, Problem, Status, holds_at, statement, statements

Guards = Any  # a SymPy boolean, or a sequence of them


class Answer(NamedTuple):
    """With "sat" come values for the symbols; "unsat" is a proof that there are none; "unknown" is neither."""

    status: Status
    values: dict[Symbol, int] | None = None


def satisfy(
    holds: Guards, fails: Guards = (), *, facts: Guards = (), none_of: Sequence[Any] = (), rlimit: int = RLIMIT
) -> Answer:
    """Integers at which `facts` and `holds` hold and not all of `fails` does (if `fails` is given).

    None of `none_of` holds there either: each is a boolean that is false, or raises.
    The same question has the same values for an answer in every process.
    """
    return Question(holds, fails, facts, none_of).ask(rlimit, fresh=True)


class Question:
    def __init__(self, holds: Guards, fails: Guards, facts: Guards, none_of: Sequence[Any] = ()) -> None:
        self.facts = statements(facts)
        self.none_of = tuple(map(statement, none_of))
        self.holds = statements(holds)
        self.fails = statements(fails)

    def decide(self, rlimit: int) -> Status:
        """Asks with a small limit, then in a fresh context with the whole one, then for each of the `fails` separately."""
        status = self.ask(rlimit // QUICK_DIVISOR, fresh=False).status
        if status == "unknown":
            status = self.ask(rlimit, fresh=True).status
        return self._ask_for_each(rlimit) if status == "unknown" and len(self.fails) > 1 else status

    def _ask_for_each(self, rlimit: int) -> Status:
        """No value if none fails at any; a value if one fails somewhere."""
        found: Status = "unsat"
        for fail in self.fails:
            status = Question(self.holds, fail, self.facts).ask(rlimit, fresh=True).status
            if status == "sat":
                return "sat"
            found = found if status == "unsat" else "unknown"
        return found

    def ask(self, rlimit: int, *, fresh: bool) -> Answer:
        problem = Problem(self.facts, rlimit=rlimit, fresh=fresh)
        assumptions = [Assumption(expr) for expr in self.holds]
        assumptions += [Assumption(expr, negated=True) for expr in self.none_of]
        if self.fails:
            assumptions.append(Assumption(sympy.And(*self.fails, evaluate=False), negated=True))
        status = problem.ask(assumptions)
        if status != "sat":
            return Answer(status)
        values = self._with_defaults(problem.values())
        return Answer("sat", values) if self._is_verified(values) else Answer("unknown")

    def _with_defaults(self, values: dict[Symbol, int]) -> dict[Symbol, int]:
        """The values, with 0 for each symbol that z3 gave none."""
        exprs = (*self.facts, *self.holds, *self.fails, *self.none_of)
        symbols = {symbol for expr in exprs for symbol in expr.free_symbols}
        return {symbol: values.get(symbol, 0) for symbol in sorted(symbols, key=lambda symbol: symbol.name)}

    def _is_verified(self, values: dict[Symbol, int]) -> bool:
        """Whether Python's arithmetic confirms the values. z3 may give opaque terms values that they cannot have."""
        if not all(holds_at(expr, values) for expr in (*self.facts, *self.holds)):
            return False
        if any(holds_at(expr, values) is not False for expr in self.none_of):
            return False
        return not self.fails or any(holds_at(expr, values) is False for expr in self.fails)


def implies(a: Guards, b: Guards, facts: Guards = (), *, rlimit: int = RLIMIT) -> bool | None:
    """Does b hold wherever a and the facts hold?"""
    if not statements(b):
        return True
    return _negated(Question(a, b, facts).decide(rlimit))


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
    return _negated(Question((*statements(a), *statements(b)), (), facts).decide(rlimit))


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
    if value is None or not implies(facts, sympy.Eq(symbol, value), rlimit=rlimit):
        return None
    return value


def _negated(status: Status) -> bool | None:
    return {"unsat": True, "sat": False, "unknown": None}[status]
