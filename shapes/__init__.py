"""Symbolic integers for shapes: expressions, an env that decides and records guards, and proofs about them.

Needs SymPy; z3 for proofs. Nothing here knows PyTorch. Names load on first use, so that importing the package is cheap.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "ShapeEnv": "env",
    "DataDependent": "env",
    "FrozenError": "env",
    "DimPolicy": "policy",
    "Past": "policy",
    "ShapePolicy": "policy",
    "SizeHistory": "policy",
    "Told": "policy",
    "DimConstraint": "constraints",
    "ConstraintViolationError": "constraints",
    "IntExpr": "polynomial",
    "BoolExpr": "relations",
    "FloatExpr": "floats",
    "Algebra": "algebra",
    "Symbol": "symbols",
    "Label": "symbols",
    "Kind": "symbols",
    "ShapeGuard": "guards",
    "GuardText": "guards",
    "RuntimeAssert": "guards",
    "Why": "guards",
    "NotAnExpression": "conversion",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"shapes.{_HOME[name]}"), name)
    raise AttributeError(f"module 'shapes' has no attribute {name!r}")
