"""One incremental z3 problem: facts, and questions whether they can hold together with assumptions.

An answer is "unsat", "sat" or "unknown"; exceeding the resource limit, or an error of z3, is "unknown". The limit counts steps
of z3, so that an answer does not depend on the load of the machine. Some long computations of z3 count no steps; a generous
time limit ends these. How many steps z3 needs depends on everything that its context has done before, and a fresh context takes
some milliseconds to make. So a question is first asked in the thread's context with a small limit, and if the answer is
unknown, again in a fresh context with the whole limit. The answer depends on history only if one context needs 16 times the
steps of another.

Questions that belong together share a `budget`, so that a hundred hard ones take no longer than some: what is asked when it is
spent is "unknown" at once.

Facts are what is known to hold at every call that is asked about, such as the declared range of a size. They are asserted once
for a `Problem`; each question adds assumptions of its own.
"""

import contextlib
import dataclasses
import time
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple

import sympy
from sympy import Symbol
from sympy.logic.boolalg import Boolean

from shapes.evaluation import evaluate
from shapes.solver import bits  # noqa: F401  registers translations
from shapes.solver.bounds import Bounds
from shapes.solver.terms import Terms, terms
from shapes.solver.translate import Translator
from shapes.sympy_functions import LShift, Pow

RLIMIT = 200_000  # of one question, about 40 ms; most that z3 can decide take a few hundred to some thousands
SECONDS = 2.0  # time limit of a question of RLIMIT steps: products of millions of digits, for example, count as no step
QUICK_DIVISOR = 16  # in the thread's own context a question gets this fraction of its limit
BUDGET = 50 * RLIMIT  # steps of all questions of one trace, or of one piece of upkeep; some seconds
LEAST_STEPS = 5_000  # what a question counts for at least: to state it takes as long as these
TIMEOUT_STEPS = 10 * RLIMIT  # what a question counts for in addition if the time limit ended it

MAX_EXPONENT_OF_WITNESS = 4096  # beyond it Python does not compute a shift or power: the number would be huge

Status = Literal["unsat", "sat", "unknown"]
_deadline: ContextVar[float] = ContextVar("deadline", default=float("inf"))  # a `time.perf_counter()`


@dataclasses.dataclass
class Budget:
    """How many steps of z3 are left to the questions asked under it; below 0 if the last one took more. What is spent here is
    spent of the `outer` budget, too."""

    left: int
    outer: "Budget | None" = None

    def remaining(self) -> float:
        """The steps that one more question may take: the least that this budget and those around it have left."""
        return min(self.left, float("inf") if self.outer is None else self.outer.remaining())

    def spend(self, steps: int) -> None:
        self.left -= steps
        if self.outer is not None:
            self.outer.spend(steps)


_budget: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextlib.contextmanager
def budget(steps: int | None = None, *, independent: bool = False) -> Iterator[Budget]:
    """Within, all questions together may take so many steps of z3 (by default BUDGET). Those asked when these are spent are
    answered "unknown". They count for the budget of the caller as well, unless this one is `independent`.

    ```python
    with budget(1_000_000):
        assert implies(X >= 3, X >= 2)
    ```
    """
    mine = Budget(BUDGET if steps is None else steps, None if independent else _budget.get())
    token = _budget.set(mine)
    try:
        yield mine
    finally:
        _budget.reset(token)


@contextlib.contextmanager
def until(moment: float) -> Iterator[None]:
    """Within, questions asked after this `time.perf_counter()` are answered "unknown". An earlier deadline of the caller still
    counts."""
    token = _deadline.set(min(moment, _deadline.get()))
    try:
        yield
    finally:
        _deadline.reset(token)


class Assumption(NamedTuple):
    """An assumption: the expression holds, or (negated) does not hold."""

    expr: Any
    negated: bool = False


def statement(expr: Any) -> Any:
    """`expr` as a SymPy boolean; raises TypeError for anything else."""
    if expr is True or expr is False:
        return sympy.true if expr else sympy.false
    if isinstance(expr, Boolean | Symbol):
        return expr
    raise TypeError(f"the solver takes SymPy booleans over integer symbols, such as x >= 2; got {expr!r} ({type(expr).__name__})")


def statements(exprs: Any) -> tuple[Any, ...]:
    """One boolean, or several of which all are meant, as a tuple of conjuncts."""
    several = exprs if isinstance(exprs, Sequence) else (exprs,)
    return tuple(conjunct for expr in several for conjunct in sympy.And.make_args(statement(expr)))


class Problem:
    """An incremental solver with the facts asserted. Each assumption that is asked about is stated once, as
    `literal => assumption` for a new boolean, the literal; a question is then which literals z3 is to take for true.

    Only the thread that made a problem may use it: a z3 context must not be shared.
    """

    def __init__(
        self,
        facts: Iterable[Any] = (),
        *,
        rlimit: int = RLIMIT,
        fresh: bool = False,
        translator: Translator | None = None,
    ) -> None:
        """`rlimit`: the steps that z3 may take for one question.

        `fresh`: uses a new z3 context, so that the answers are the same in every process.

        `translator`: of another problem with the same facts, whose translated terms are used again.

        Raises TypeError if a fact is not a SymPy boolean.
        """
        facts = statements(tuple(facts))
        self.translator = translator or Translator(Terms() if fresh else terms(), Bounds(facts))
        self._terms = self.translator.terms
        self.rlimit = rlimit
        self._solver = self._terms.solver()
        self._solver.set("rlimit", max(1, rlimit))  # of each question
        self._seconds = SECONDS * max(1.0, rlimit / RLIMIT)
        self._solver.set("timeout", round(self._seconds * 1000))
        self._timed_out = False  # the last question was; no other one is asked then
        self._axioms_asserted = 0  # how many of the translator's axioms the solver has
        self._literals: dict[Assumption, Any] = {}
        self._by_name: dict[str, Assumption] = {}  # by the name of the literal, as z3's core gives it
        for fact in facts:
            self._assert(self.translator.holds(fact))

    def ask(self, assumptions: Sequence[Assumption]) -> Status:
        """Can the facts and all the assumptions hold together? "unknown" also where z3 may not be asked: the budget is spent, the
        deadline is past, or an earlier question of this problem ran into the time limit."""
        budget = _budget.get()
        if self._timed_out or time.perf_counter() > _deadline.get() or (budget is not None and budget.remaining() <= 0):
            return "unknown"
        if budget is None:
            return self._ask(assumptions)
        before, remaining = self.steps(), budget.remaining()
        if remaining < self.rlimit:
            self._solver.set("rlimit", int(remaining))
        status = self._ask(assumptions)
        taken = (self.steps() - before) % (1 << 32)
        budget.spend(max(LEAST_STEPS, taken) + TIMEOUT_STEPS * self._timed_out)
        return status

    def _ask(self, assumptions: Sequence[Assumption]) -> Status:
        z3, begun = self._terms.z3, time.perf_counter()
        try:
            answer = self._terms.check(self._solver, [self._literal(assumption) for assumption in assumptions])
        except z3.Z3Exception:
            return "unknown"
        finally:
            self._timed_out = time.perf_counter() - begun >= self._seconds
        return "sat" if answer == z3.sat else "unsat" if answer == z3.unsat else "unknown"

    def steps(self) -> int:
        """z3's count of its steps so far in this thread; differences are meant modulo 2**32."""
        return self._terms.steps(self._solver)

    def unsat_core(self) -> set[Assumption]:
        """After "unsat": assumptions that together with the facts suffice for it; not always the fewest (see `solver.core`)."""
        return {self._by_name[term.decl().name()] for term in self._solver.unsat_core()}

    def values(self) -> dict[Symbol, int]:
        """After "sat": an integer for each symbol met so far. They may be wrong where a term is opaque, so a caller that relies
        on them evaluates the conditions at them (`prove` does)."""
        model = self._solver.model()
        return {symbol: model.eval(term, model_completion=True).as_long() for symbol, term in self.translator.symbols.items()}

    def script(self) -> str:
        """The facts in SMT-LIB."""
        return str(self._solver.to_smt2())

    def _literal(self, assumption: Assumption) -> Any:
        """The boolean that stands for the assumption in the solver."""
        literal = self._literals.get(assumption)
        if literal is None:
            name = f"assume!{len(self._literals)}"
            literal = self._literals[assumption] = self._terms.boolean_symbol(name)
            self._by_name[name] = assumption
            holds = self.translator.holds(assumption.expr)
            assumed = self._terms.negation(holds) if assumption.negated else holds
            self._assert(self._terms.implication(literal, assumed))
        return literal

    def _assert(self, condition: Any) -> None:
        """Asserts a condition, after the axioms that translating it has added."""
        axioms = self.translator.axioms
        for each in (*axioms[self._axioms_asserted :], condition):
            self._terms.assert_(self._solver, each)
        self._axioms_asserted = len(axioms)


def holds_at(expr: Any, values: dict[Symbol, int]) -> bool | None:
    """Whether `expr` holds at the values, by Python's arithmetic; None if a symbol has no value, or a number would be huge. An
    expression that raises there (a division by zero) does not hold: a guard that raises is a miss."""
    if expr.has(LShift, Pow) and any(abs(value) > MAX_EXPONENT_OF_WITNESS for value in values.values()):
        return None
    try:
        return bool(evaluate(expr, values))
    except KeyError:
        return None
    except (ArithmeticError, ValueError, MemoryError):
        return False
