"""Regions: the shapes of a domain at which the guards of an entry hold, and the search for shapes in no region.

A region is the conjunction of the shape guards of one entry, over the variables of a `Domain`. The answer "unsat" is a proof, a
witness was checked by Python's arithmetic, and "unknown" means that the solver cannot tell.
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

RETRY_FACTOR = 25  # a question that z3 cannot answer is asked again with a limit that is so many times as high
SAMPLES = 1000  # number of shapes at which a region is tried if z3 does not know whether it is empty
MOST_TRIED = 1 << 21  # number of shapes up to which all are tried if z3 does not know; takes a few seconds
SMALL_SIZE = 64  # witnesses with sizes up to this are preferred, since they are cheap to trace


@dataclasses.dataclass(frozen=True)
class Condition:
    """A guard on shapes, with the reason for it, the user's line that caused it, and the condition as the program wrote it."""

    expr: Any
    why: Why
    where: Any = None
    recorded: str = ""


@dataclasses.dataclass(frozen=True)
class ShapeRecord:
    """The shape guards of an entry over the symbols of its trace, and the label of each symbol."""

    conditions: tuple[Condition, ...]
    places: Mapping[Any, Label]


@dataclasses.dataclass(frozen=True, eq=False)
class Region:
    """The shapes at which all conditions hold. The conditions are over the variables of a domain."""

    conditions: tuple[Condition, ...]

    @functools.cached_property
    def formula(self) -> Any:
        return sympy.And(*dict.fromkeys(condition.expr for condition in self.conditions))

    @functools.cached_property
    def check(self) -> Callable[[Point], bool]:
        """Whether a point lies in the region, computed as check_fn would."""
        symbols = sorted(self.formula.free_symbols, key=str)
        function = _compiled_condition(symbols, self.formula)
        return lambda point: _holds(function, [point[symbol] for symbol in symbols])

    def conditions_beyond(self, domain: Domain) -> list[Condition]:
        """The conditions that do not follow from the domain, in reading order; two bounds on one term are one condition."""
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
        found = [condition.expr for condition in self.conditions_beyond(domain)]
        return (
            " and ".join(f"({show(each)})" if each.func is sympy.Or and found[1:] else show(each) for each in found)
            or "every shape"
        )


def substituted(conditions: Iterable[Condition], values: Mapping[Any, Any]) -> Region:
    """The region of conditions over other symbols, each of which is replaced by its expression over a domain's variables."""
    return Region(tuple([dataclasses.replace(each, expr=each.expr.xreplace(values)) for each in conditions]))


@dataclasses.dataclass(frozen=True)
class SearchResult:
    """The result of a search for a shape: "sat" with a `witness`, "unsat" if there is none, "unknown" if the solver cannot
    tell."""

    status: str
    witness: Point | None = None


def find_uncovered(domain: Domain, regions: Sequence[Region], *, rlimit: int = RLIMIT) -> SearchResult:
    """Searches for a shape of the domain that lies in no region; prefers small ones."""
    inside = domain.conditions()
    if any(_is_implied(region, inside) for region in regions):
        return SearchResult("unsat")
    covered = [region.formula for region in regions]
    small = [each.symbol <= max(SMALL_SIZE, each.smallest) for each in domain.variables]
    for conditions, limit in (([*inside, *small], rlimit), (inside, rlimit), (inside, RETRY_FACTOR * rlimit)):
        answer = solver.satisfy(conditions, none_of=covered, rlimit=limit)
        if answer.status == "sat" and answer.values is not None:
            point = {each.symbol: answer.values[each.symbol] for each in domain.variables}
            return SearchResult("sat", point)
        if answer.status == "unsat" and conditions is inside:
            return SearchResult("unsat")
    return _try_each_shape(domain, regions)


def _is_implied(region: Region, inside: Sequence[Any]) -> bool:
    """Whether each condition of a region is among others, as they stand."""
    known = set(inside)
    return all(condition.expr is sympy.true or condition.expr in known for condition in region.conditions)


def _try_each_shape(domain: Domain, regions: Sequence[Region]) -> SearchResult:
    """As `find_uncovered`, by trying every shape of the domain, if there are not too many."""
    if domain.points() > MOST_TRIED:
        return SearchResult("unknown")
    symbols = [each.symbol for each in domain.variables]
    inside = _compiled_condition(symbols, sympy.And(*domain.relations))
    covered = _compiled_condition(symbols, *(region.formula for region in regions))
    for values in itertools.product(*(each.values() for each in domain.variables)):
        try:
            done = covered(*values)
        except (ArithmeticError, ValueError):
            point = dict(zip(symbols, values))
            done = any(region.check(point) for region in regions)
        if not done and _holds(inside, values):
            point = dict(zip(symbols, values))
            if domain.holds(point):
                return SearchResult("sat", point)
    return SearchResult("unsat")


def _compiled_condition(symbols: Sequence[Any], *exprs: Any) -> Callable[..., Any]:
    """A Python function of the symbols: whether one of the conditions holds. (Not one SymPy Or, because SymPy simplifies
    `p or not p` to true, which is wrong if p raises.)"""
    names = {symbol: f"v{index}" for index, symbol in enumerate(symbols)}
    texts = [f"({python_source(expr, names)})" for expr in exprs]
    text = f"lambda {', '.join(names.values())}: {' or '.join(texts) or False}"
    function: Callable[..., Any] = eval(text, dict(NAMESPACE))
    return function


def _holds(function: Callable[..., Any], values: Sequence[int]) -> bool:
    try:
        return bool(function(*values))
    except (ArithmeticError, ValueError):  # a guard that raises is a miss
        return False


def find_member(domain: Domain, region: Region) -> SearchResult:
    """Searches for a shape of the domain that lies in a region."""
    answer = solver.satisfy([*domain.conditions(), region.formula])
    if answer.status == "sat" and answer.values is not None:
        return SearchResult("sat", {each.symbol: answer.values[each.symbol] for each in domain.variables})
    if answer.status == "unsat":
        return SearchResult("unsat")
    point = next(filter(region.check, domain.samples(SAMPLES)), None)
    return SearchResult("unknown") if point is None else SearchResult("sat", point)


def nearest(domain: Domain, regions: Sequence[Region], point: Point, *, rlimit: int = RLIMIT) -> Point | None:
    """A shape of the domain that lies in a region, with the least sum of differences to `point` that the solver finds."""
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
    """The conditions that the differences to a point sum up to no more than `radius`."""
    total: Any = sympy.Integer(0)
    found = []
    for each in domain.variables:
        difference = sympy.Symbol(f"|{each.name}|", integer=True)
        found += [difference >= each.symbol - point[each.symbol], difference >= point[each.symbol] - each.symbol]
        total += difference
    return [*found, total <= radius]
