"""Proofs about guards with z3: what implies what, what is redundant, which integers tell two sets apart.

The only importer of z3, which is loaded at the first question. Everything takes SymPy booleans over integer symbols
and answers on the safe side: what is not proved is None or kept.
"""

from shapes.solver.cores import core
from shapes.solver.problem import until
from shapes.solver.prove import Answer, disjoint, equivalent, forced_value, implies, satisfy, witness
from shapes.solver.pruning import Dropped, PruneResult, prune
from shapes.solver.smtlib import smtlib

__all__ = [
    "Answer",
    "Dropped",
    "PruneResult",
    "core",
    "disjoint",
    "equivalent",
    "forced_value",
    "implies",
    "prune",
    "satisfy",
    "smtlib",
    "until",
    "witness",
]
