"""The interface to z3: the module, loaded at first use, a context per thread, and functions that build terms.

A z3 context must not be used by two threads, nor by a child process that inherited it in mid-flight: each thread has
its own, and a forked child starts afresh. Only integers and booleans are ever built here, never z3's reals.
"""

import functools
import os
import threading
from collections.abc import Sequence
from typing import Any

_local = threading.local()


@functools.cache
def load_z3() -> Any:
    """The z3 module."""
    import z3  # late: it takes 0.08 s, and only hard questions need it

    return z3


def terms() -> "Terms":
    """The term builder of this thread."""
    mine = getattr(_local, "terms", None)
    if mine is None or mine.pid != os.getpid():
        mine = _local.terms = Terms()
    return mine


class Terms:
    """Integer and boolean terms in one context, built without the checks and coercions of z3's operators."""

    def __init__(self) -> None:
        z3 = load_z3()
        self.z3 = z3
        self.pid = os.getpid()
        self.context = z3.Context()
        self.true = z3.BoolVal(True, self.context)
        self.false = z3.BoolVal(False, self.context)
        self._core = z3.z3core
        self._ref = self.context.ref()
        self._int_sort = z3.IntSort(self.context)
        self._steps: int | None = None  # as `steps` counted them after the last answer

    def solver(self) -> Any:
        """An empty incremental solver; Ctrl-C stays Python's."""
        solver = self.z3.SimpleSolver(ctx=self.context)
        solver.set("ctrl_c", False)
        return solver

    def assert_(self, solver: Any, condition: Any) -> None:
        self._core.Z3_solver_assert(self._ref, solver.solver, condition.ast)

    def check(self, solver: Any, assumptions: Sequence[Any]) -> Any:
        """z3's answer; raises Z3Exception."""
        array = self._array(assumptions)
        self._steps = None
        answer = self._core.Z3_solver_check_assumptions(self._ref, solver.solver, len(assumptions), array)
        return self.z3.CheckSatResult(answer)

    def steps(self, solver: Any) -> int:
        """z3's count of its steps in this context up to its last answer, as 32 bits."""
        if self._steps is None:
            self._steps = self._read_steps(solver)
        return self._steps

    def _read_steps(self, solver: Any) -> int:
        statistics = solver.statistics()
        for index in range(len(statistics)):
            if self._core.Z3_stats_get_key(self._ref, statistics.stats, index) == "rlimit count":
                return int(self._core.Z3_stats_get_uint_value(self._ref, statistics.stats, index))
        return 0

    # ---- constants

    def integer(self, value: int) -> Any:
        return self.z3.ArithRef(self._core.Z3_mk_numeral(self._ref, str(value), self._int_sort.ast), self.context)

    def integer_symbol(self, name: str) -> Any:
        return self.z3.Int(name, self.context)

    def boolean_symbol(self, name: str) -> Any:
        return self.z3.Bool(name, self.context)

    # ---- integers

    def add(self, args: Sequence[Any]) -> Any:
        return args[0] if len(args) == 1 else self._integer_nary(self._core.Z3_mk_add, args)

    def mul(self, args: Sequence[Any]) -> Any:
        return args[0] if len(args) == 1 else self._integer_nary(self._core.Z3_mk_mul, args)

    def sub(self, a: Any, b: Any) -> Any:
        return self._integer_nary(self._core.Z3_mk_sub, (a, b))

    def neg(self, a: Any) -> Any:
        return self.z3.ArithRef(self._core.Z3_mk_unary_minus(self._ref, a.ast), self.context)

    def euclidean_div(self, a: Any, b: Any) -> Any:
        return self.z3.ArithRef(self._core.Z3_mk_div(self._ref, a.ast, b.ast), self.context)

    def euclidean_mod(self, a: Any, b: Any) -> Any:
        return self.z3.ArithRef(self._core.Z3_mk_mod(self._ref, a.ast, b.ast), self.context)

    def choose(self, condition: Any, a: Any, b: Any) -> Any:
        ref = self._core.Z3_mk_ite(self._ref, condition.ast, a.ast, b.ast)
        return type(a)(ref, self.context) if type(a) is type(b) else self.z3.If(condition, a, b, self.context)

    def _integer_nary(self, make: Any, args: Sequence[Any]) -> Any:
        return self.z3.ArithRef(make(self._ref, len(args), self._array(args)), self.context)

    def _array(self, args: Sequence[Any]) -> Any:
        array = (self.z3.Ast * len(args))()
        for index, arg in enumerate(args):
            array[index] = arg.ast
        return array

    # ---- booleans

    def eq(self, a: Any, b: Any) -> Any:
        return self._boolean(self._core.Z3_mk_eq(self._ref, a.ast, b.ast))

    def le(self, a: Any, b: Any) -> Any:
        return self._boolean(self._core.Z3_mk_le(self._ref, a.ast, b.ast))

    def lt(self, a: Any, b: Any) -> Any:
        return self._boolean(self._core.Z3_mk_lt(self._ref, a.ast, b.ast))

    def negation(self, a: Any) -> Any:
        return self._boolean(self._core.Z3_mk_not(self._ref, a.ast))

    def implication(self, a: Any, b: Any) -> Any:
        return self._boolean(self._core.Z3_mk_implies(self._ref, a.ast, b.ast))

    def conjunction(self, args: Sequence[Any]) -> Any:
        if not args:
            return self.true
        return args[0] if len(args) == 1 else self._boolean(self._core.Z3_mk_and(self._ref, len(args), self._array(args)))

    def disjunction(self, args: Sequence[Any]) -> Any:
        if not args:
            return self.false
        return args[0] if len(args) == 1 else self._boolean(self._core.Z3_mk_or(self._ref, len(args), self._array(args)))

    def _boolean(self, ref: Any) -> Any:
        return self.z3.BoolRef(ref, self.context)
