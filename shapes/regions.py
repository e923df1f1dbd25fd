"""Regions of a domain: for which shapes an entry holds, and whether several together leave a shape out.

A region is what the shape guards of one entry say, over the variables of a `Domain`. `unsat` is a proof that nothing is left
out, a witness was checked by Python's arithmetic, and what the solver does not know is said to be unknown.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import sympy

from shapes import solver
from shapes.domain import Domain, Point, show
from shapes.guards import Why
from shapes.printing import NAMESPACE, group, python_source
from shapes.solver.problem import RLIMIT
from shapes.symbols import Label

HARDER = 25  # how many times the usual limit a question gets that z3 could not answer within it
SAMPLES = 1000  # shapes at which a region is tried where z3 finds none
FEW = 1 << 21  # shapes that are tried one by one where z3 does not know: a few seconds
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
        function = _function(symbols, self.formula)
        return lambda point: _true(function, [point[symbol] for symbol in symbols])

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
    """Whether a shape is left out: "unsat" if none is, "sat" with a `witness`, "unknown" if the solver cannot tell."""

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
    return _one_by_one(domain, regions)


def _one_by_one(domain: Domain, regions: Sequence[Region]) -> Uncovered:
    """By Python's arithmetic at every shape of a domain that has few: a proof without z3."""
    if domain.points() > FEW:
        return Uncovered("unknown")
    symbols = [each.symbol for each in domain.variables]
    inside = _function(symbols, sympy.And(*domain.relations))
    covered = _function(symbols, *(region.formula for region in regions))
    for values in itertools.product(*(each.values() for each in domain.variables)):
        try:
            done = covered(*values)
        except (ArithmeticError, ValueError):
            point = dict(zip(symbols, values))
            done = any(region.check(point) for region in regions)
        if not done and _true(inside, values):
            point = dict(zip(symbols, values))
            if domain.holds(point):
                return Uncovered("sat", point)
    return Uncovered("unsat")


def _function(symbols: Sequence[Any], *exprs: Any) -> Callable[..., Any]:
    """Whether one of the conditions holds, as a Python function of the symbols. (SymPy's Or takes `p or not p` for true, which
    it is not where p raises.)"""
    names = {symbol: f"v{index}" for index, symbol in enumerate(symbols)}
    texts = [f"({python_source(expr, names)})" for expr in exprs]
    text = f"lambda {', '.join(names.values())}: {' or '.join(texts) or False}"
    function: Callable[..., Any] = eval(text, dict(NAMESPACE))
    return function


def _true(function: Callable[..., Any], values: Sequence[int]) -> bool:
    try:
        return bool(function(*values))
    except (ArithmeticError, ValueError):  # a guard that raises is a miss
        return False


def member(domain: Domain, region: Region) -> Uncovered:
    """Whether a region has a shape of the domain: "sat" with one, "unsat" if it has none, "unknown" if the solver cannot tell."""
    answer = solver.satisfy([*domain.conditions(), region.formula])
    if answer.status == "sat" and answer.values is not None:
        return Uncovered("sat", {each.symbol: answer.values[each.symbol] for each in domain.variables})
    if answer.status == "unsat":
        return Uncovered("unsat")
    point = next(filter(region.check, domain.samples(SAMPLES)), None)
    return Uncovered("unknown") if point is None else Uncovered("sat", point)


def nearest(domain: Domain, regions: Sequence[Region], point: Point, *, rlimit: int = RLIMIT) -> Point | None:
    """A covered shape of the domain with the least sum of differences to `point` that is found; None if none is."""
    covered = [*domain.conditions(), sympy.Or(*(region.formula for region in regions))]
    best: Point | None = None
    low, high = 0, 1 << 62  # the distance lies in (low, high]
    while high - low > 1:
        radius = (low + high) // 2 if best is not None else min(high, max(1, 8 * low))
        answer = solver.satisfy([*covered, *_within(domain, point, radius)], rlimit=rlimit)
        if answer.status == "sat" and answer.values is not None:
            found = {each.symbol: answer.values[each.symbol] for each in domain.variables}
            if not any(region.check(found) for region in regions):
                break
            best = found
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
