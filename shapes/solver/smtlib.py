"""Conditions as an SMT-LIB script, so that other solvers can check them."""

from collections.abc import Sequence
from typing import Any

import sympy

from shapes.evaluation import ordered_args
from shapes.solver.bounds import Bounds
from shapes.solver.problem import Problem, statements
from shapes.solver.terms import Terms
from shapes.solver.translate import Translator


def smtlib(conditions: Sequence[Any]) -> str:
    """A script that declares the symbols, by their names, asserts the conditions and asks whether they can hold together. It is
    the same in every process."""
    parts = [part for expr in conditions for part in (ordered_args(expr) if isinstance(expr, sympy.And) else (expr,))]
    facts = statements(list(dict.fromkeys(parts)))
    return Problem(facts, translator=Translator(Terms(), Bounds(facts), readable=True)).script()
