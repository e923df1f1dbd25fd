"""What a user could assume of sizes so that a program has fewer regions: the weakest relations under which the example's is
alone."""

from __future__ import annotations

import dataclasses
from typing import Any

import sympy

from shapes import solver
from shapes.domain import Domain, Point
from shapes.printing import relation_source
from shapes.regions import Condition, Region
from tracer.sources.written import argument_as_written


@dataclasses.dataclass(frozen=True)
class Assumption:
    """`check`: a line to paste as the first one of the function; "" if a size has no name there. `clause`: the same for the
    spec. `where`: the user's line that divides the domain."""

    clause: str
    check: str = ""
    where: Any = None

    def __str__(self) -> str:
        pasted = f", or {self.check} as the function's first line" if self.check else ""
        return f"one region fewer with {self.clause!r} in the spec{pasted}"


def dividing_assumption(domain: Domain, condition: Condition, example: Point) -> Assumption | None:
    """What decides a condition that divides the domain, as it is in the example; None if nothing is known."""
    found = solver.weakest_assumption(condition.expr, domain.conditions(), _related(domain, condition.expr, example))
    if found is None:
        return None
    names = {}
    for each in domain.variables:
        text = argument_as_written(domain.own_place(each) or "")
        if text is not None:
            names[each.symbol] = text
    named = found.condition.free_symbols <= set(names)
    check = f"torch._check({relation_source(found.condition, names)})" if named else ""
    return Assumption(_clause(domain, found.condition), check, condition.where)


def _clause(domain: Domain, condition: Any) -> str:
    """A condition as a clause of the spec; bounds of one size are given together, to take the place of those that it has."""
    bounded = next((each for each in domain.variables if condition.free_symbols == {each.symbol}), None)
    if bounded is not None and isinstance(condition, (sympy.Le, sympy.Ge)) and condition.lhs == bounded.symbol:
        low, high = bounded.min, bounded.max
        if isinstance(condition, sympy.Ge):
            low = max(low, int(condition.rhs))
        else:
            high = int(condition.rhs) if high is None else min(high, int(condition.rhs))
        step = "" if bounded.multiple_of == 1 else f" by {bounded.multiple_of}"
        return f"{bounded.name} in {low}..{'' if high is None else high}{step}"
    return relation_source(condition, {each.symbol: each.name for each in domain.variables})


def dividing_assumptions(domain: Domain, region: Region, example: Point) -> list[Assumption]:
    """For each line of the program that divides the domain, what would decide it, as it is in the example."""
    divided = [condition for condition in region.conditions_beyond(domain) if condition.where is not None]
    return [each for condition in divided if (each := dividing_assumption(domain, condition, example)) is not None]


def _related(domain: Domain, expr: Any, example: Point) -> Point:
    """The example's sizes that a condition names, and those that relations tie to them."""
    symbols = set(expr.free_symbols)
    for relation in domain.relations:
        if symbols & relation.free_symbols:
            symbols |= relation.free_symbols
    return {symbol: value for symbol, value in example.items() if symbol in symbols}
