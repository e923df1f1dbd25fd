"""Proofs about guards with z3: implication, redundancy, and integers at which one set of guards holds and another does not.

Only this package imports z3, at the first question. All functions take SymPy booleans over integer symbols. If something cannot
be proved, the answer is None, or the guard is kept.
"""

from shapes.solver.abduction import DecidingAssumption, weakest_assumption
from shapes.solver.cores import core
from shapes.solver.problem import budget, until
from shapes.solver.prove import Answer, disjoint, equivalent, forced_value, implies, satisfy, witness
from shapes.solver.pruning import Dropped, PruneResult, prune
from shapes.solver.smtlib import smtlib

__all__ = [
    "Answer",
    "DecidingAssumption",
    "Dropped",
    "PruneResult",
    "budget",
    "core",
    "disjoint",
    "equivalent",
    "forced_value",
    "implies",
    "prune",
    "satisfy",
    "smtlib",
    "until",
    "weakest_assumption",
    "witness",
]
