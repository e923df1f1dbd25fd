"""Conditions as an SMT-LIB script, for other solvers and for people who do not trust this one."""

from collections.abc import Sequence
from typing import Any

import sympy

from shapes.evaluation import ordered_args
from shapes.solver.problem import Problem


def smtlib(conditions: Sequence[Any]) -> str:
    """A script that declares the symbols, asserts the conditions and asks whether they can hold together; the same in every
    process."""
    parts = [part for expr in conditions for part in (ordered_args(expr) if isinstance(expr, sympy.And) else (expr,))]
    return Problem(list(dict.fromkeys(parts)), fresh=True).script()
