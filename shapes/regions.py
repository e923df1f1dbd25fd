"""Regions of a domain: for which shapes an entry holds, and whether several together leave a shape out.

A region is what the shape guards of one entry say, over the variables of a `Domain`. `unsat` is a proof that nothing is left
out, a witness was checked by Python's arithmetic, and what the solver does not know is said to be unknown.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import sympy

from shapes import solver
from shapes.domain import Domain, Point, show
from shapes.evaluation import evaluate
from shapes.guards import Why
from shapes.printing import NAMESPACE, group, python_source
from shapes.solver.problem import RLIMIT
from shapes.symbols import Label

HARDER = 25  # how many times the usual limit a question gets that z3 could not answer within it
SMALL = 64  # witnesses are looked for below this first: what is traced for them is to be cheap


@dataclasses.dataclass(frozen=True)
class Condition:
    """A guard on shapes, the user's line that made it needed, and the form in which the program asked it."""

    expr: Any
    why: Why
    where: Any = None
    recorded: str = ""


@dataclasses.dataclass(frozen=True)
class ShapeRecord:
    """The shape guards of an entry over the symbols of its trace, and where each symbol is found."""

    conditions: tuple[Condition, ...]
    places: Mapping[Any, Label]


@dataclasses.dataclass(frozen=True, eq=False)
class Region:
    """The shapes at which all conditions hold; they are over the variables of a domain."""

    conditions: tuple[Condition, ...]

    @functools.cached_property
    def formula(self) -> Any:
        return sympy.And(*dict.fromkeys(condition.expr for condition in self.conditions))

    @functools.cached_property
    def check(self) -> Callable[[Point], bool]:
        """Whether a point lies in the region, computed as check_fn would."""
        symbols = sorted(self.formula.free_symbols, key=str)
        names = {symbol: f"v{index}" for index, symbol in enumerate(symbols)}
        text = f"lambda {', '.join(names.values())}: {python_source(self.formula, names)}"
        function = eval(text, dict(NAMESPACE))

        def holds(point: Point) -> bool:
            try:
                return bool(function(*[point[symbol] for symbol in symbols]))
            except (ArithmeticError, ValueError):  # a guard that raises is a miss
                return False

        return holds

    def beside(self, domain: Domain) -> list[Condition]:
        """What the region says that the domain does not say already, bounds of one term together, as a person reads it."""
        exprs = [condition.expr for condition in self.conditions]
        kept = solver.prune(exprs, domain.conditions())
        of = [self.conditions[index] for index in kept.indices]
        found = []
        for line in group(kept.kept):
            first = next((of[index] for index in line.members if of[index].where is not None), of[line.members[0]])
            found.append(dataclasses.replace(first, expr=line.expr))
        return found

    def text(self, domain: Domain) -> str:
        """`2 <= B <= 8 and S % 128 == 0`"""
        return " and ".join(show(condition.expr) for condition in self.beside(domain)) or "every shape"


def over(conditions: Iterable[Condition], values: Mapping[Any, Any]) -> Region:
    """The region of conditions over other symbols: each symbol replaced by its expression over a domain's variables."""
    return Region(tuple([dataclasses.replace(each, expr=each.expr.xreplace(values)) for each in conditions]))


@dataclasses.dataclass(frozen=True)
class Uncovered:
    """"unsat": no shape is left out. "sat": `witness` is. "unknown": nobody knows."""

    status: str
    witness: Point | None = None


def uncovered(domain: Domain, regions: Sequence[Region], *, rlimit: int = RLIMIT) -> Uncovered:
    """A shape of the domain in none of the regions; a small one where that is found as easily."""
    left = domain.conditions()
    taken = [region.formula for region in regions]
    small = [each.symbol <= max(SMALL, each.first) for each in domain.variables]
    for conditions, limit in (([*left, *small], rlimit), (left, rlimit), (left, HARDER * rlimit)):
        answer = solver.satisfy(conditions, misses=taken, rlimit=limit)
        if answer.status == "sat" and answer.values is not None:
            point = {each.symbol: answer.values[each.symbol] for each in domain.variables}
            return Uncovered("sat", point)
        if answer.status == "unsat" and conditions is left:
            return Uncovered("unsat")
    return Uncovered("unknown")


def nearest(domain: Domain, regions: Sequence[Region], point: Point, *, rlimit: int = RLIMIT) -> Point | None:
    """A covered shape of the domain with the least sum of differences to `point` that is found; None if none is."""
    covered = [*domain.conditions(), sympy.Or(*(region.formula for region in regions))]
    best: Point | None = None
    low, high = 0, 1 << 62  # the distance lies in (low, high]
    while high - low > 1:
        radius = (low + high) // 2 if best is not None else min(high, max(1, 8 * low))
        answer = solver.satisfy([*covered, *_within(domain, point, radius)], rlimit=rlimit)
        if answer.status == "sat" and answer.values is not None:
            best = {each.symbol: answer.values[each.symbol] for each in domain.variables}
            high = sum(abs(best[symbol] - point[symbol]) for symbol in best)
        elif answer.status == "unsat":
            low = radius
        else:
            break
    return best


def _within(domain: Domain, point: Point, radius: int) -> list[Any]:
    """That the differences to a point sum up to no more than `radius`."""
    total: Any = sympy.Integer(0)
    found = []
    for each in domain.variables:
        difference = sympy.Symbol(f"|{each.name}|", integer=True)
        found += [difference >= each.symbol - point[each.symbol], difference >= point[each.symbol] - each.symbol]
        total += difference
    return [*found, total <= radius]


def holds_at(expr: Any, point: Point) -> bool:
    """Whether a condition holds at a point; one that raises does not."""
    try:
        return bool(evaluate(expr, point))
    except (ArithmeticError, ValueError):
        return False
