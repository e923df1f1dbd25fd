"""What a trace knows of its symbols, as conditions for the solver.

`Facts.decide` answers by bounds and by one fact at a time, since it is asked with each operation. Where a condition depends on
data and that does not decide it, the graph would break, and z3 is asked about all facts together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import sympy

from shapes import solver
from shapes.polynomial import IntExpr
from shapes.ranges import INF
from shapes.relations import BoolExpr
from shapes.symbols import Symbol

if TYPE_CHECKING:
    from shapes.env import ShapeEnv


def decided_by_proof(env: ShapeEnv, condition: BoolExpr) -> bool | None:
    """Whether the facts together imply a condition on integers, or that it does not hold; None if neither is proved."""
    facts = related_facts(env, condition)
    if facts is None:
        return None
    for answer, goal in ((True, condition), (False, env.algebra.negate(condition))):
        if solver.implies(facts, goal.sympy):
            return answer
    return None


def related_facts(env: ShapeEnv, expr: BoolExpr | IntExpr) -> list[Any] | None:
    """The facts about the symbols of an expression, and about those that these are compared with; None for floats."""
    symbols = set(env.algebra.symbols(expr))
    if any(symbol.kind.is_float for symbol in symbols):
        return None
    known = [(condition, set(of)) for condition, of in _known(env) if not any(symbol.kind.is_float for symbol in of)]
    found: dict[Any, None] = {}
    grown = True
    while grown:
        grown = False
        for condition, of in known:
            if condition not in found and not symbols.isdisjoint(of):
                found[condition] = None
                grown = grown or not of <= symbols
                symbols |= of
    return list(found)


def _known(env: ShapeEnv) -> Iterator[tuple[Any, list[Symbol]]]:
    """Each fact as a SymPy condition, with its symbols."""
    for symbol in env.symbols():
        for low, high in (symbol.base, symbol.trusted):
            if low != -INF:
                yield symbol.sympy >= low, [symbol]
            if high != INF:
                yield symbol.sympy <= high, [symbol]
    for fact in env.facts.learned:
        yield fact.sympy, env.algebra.symbols(fact)
    for index, value in env.facts.replacements.values.items():
        expr = env.algebra.atoms[index].expr
        yield sympy.Eq(expr.sympy, value.sympy), [*env.algebra.symbols(expr), *env.algebra.symbols(value)]
