"""Shape domains: which sizes may come, as named integers with bounds and relations, and where they are found.

A domain is what a user declares of the sizes of a program's inputs. A `ShapeEnv` that knows one (`declare`) has one
symbol for each variable, takes the facts for granted while tracing, and has them checked at the entry.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import random
from collections.abc import Iterator, Mapping
from typing import Any

import sympy

from shapes.constraints import LARGEST_SIZE
from shapes.evaluation import evaluate
from shapes.parsing import variable
from shapes.printing import python_source
from shapes.sympy_functions import PythonMod

Point = dict[Any, int]  # symbol -> value


class OutsideDomain(ValueError):
    """The sizes of a call are not among those declared."""


@dataclasses.dataclass(frozen=True)
class Variable:
    """A named size, or int: min <= it <= max (none: as large as a size can be), and a multiple of `multiple_of`."""

    name: str
    min: int = 1
    max: int | None = None
    multiple_of: int = 1

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"{self.name!r} is no name for a size: it has to be an identifier")
        for field in ("min", "max", "multiple_of"):
            value = getattr(self, field)
            if value is None and field == "max":
                continue
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{field} of {self.name} is an int, not {value!r}")
            if not (1 if field == "multiple_of" else -LARGEST_SIZE) <= value <= LARGEST_SIZE:
                raise ValueError(f"{field} of {self.name} is {value}, which is no size")
        if self.first > self.top:
            raise ValueError(f"no size is left for {self.name}: {self}")

    @property
    def symbol(self) -> Any:
        return variable(self.name)

    @property
    def top(self) -> int:
        return LARGEST_SIZE if self.max is None else self.max

    @property
    def first(self) -> int:
        """The smallest value."""
        return -(-self.min // self.multiple_of) * self.multiple_of

    def count(self) -> int:
        return (self.top - self.first) // self.multiple_of + 1

    def values(self) -> range:
        return range(self.first, self.top + 1, self.multiple_of)

    def conditions(self) -> list[Any]:
        return list(_conditions(self))

    def __str__(self) -> str:
        upper = "" if self.max is None else f" <= {self.max}"
        step = "" if self.multiple_of == 1 else f", {self.name} % {self.multiple_of} == 0"
        return f"{self.min} <= {self.name}{upper}{step}"


@functools.lru_cache(maxsize=1024)
def _conditions(of: Variable) -> tuple[Any, ...]:
    """Made once: each miss of a sealed function asks for them, beside requests."""
    found = [of.symbol >= of.min]
    if of.max is not None:
        found.append(of.symbol <= of.max)
    if of.multiple_of > 1:
        found.append(sympy.Eq(PythonMod(of.symbol, of.multiple_of), 0))
    return tuple(found)


@dataclasses.dataclass(frozen=True)
class Domain:
    """`places`: the name of a label (`L['x'].size()[0]`) -> what is found there, an expression over the variables. `ints`: those
    that hold an int of the program (`L['n']`), which may be negative."""

    variables: tuple[Variable, ...]
    places: Mapping[str, Any]
    relations: tuple[Any, ...] = ()
    ints: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        known = {each.symbol for each in self.variables}
        for expr in (*self.places.values(), *self.relations):
            for symbol in sorted(expr.free_symbols - known, key=str):
                raise ValueError(f"{symbol} in {show(expr)} is no declared size; declared are {', '.join(map(str, known))}")
        for each in self.variables:
            home = self.home(each)
            if home is None:
                raise ValueError(
                    f"{each.name} stands nowhere alone: a size that others are computed from has to be a dim of an input itself"
                )
            if each.min < 0 and home not in self.ints:
                raise ValueError(f"min of {each.name} is {each.min}, which is no size")

    def home(self, each: Variable) -> str | None:
        """The first place that holds this very variable, where there is one a size."""
        places = [place for place, expr in self.places.items() if expr == each.symbol]
        return min(places, key=self.ints.__contains__, default=None)

    def is_size(self, each: Variable) -> bool:
        """Whether it is the size of a dim, and not only an int."""
        return self.home(each) not in self.ints

    def conditions(self) -> list[Any]:
        """What holds of the variables, everywhere in the domain."""
        found = [condition for each in self.variables for condition in each.conditions()]
        found += [each.symbol <= LARGEST_SIZE for each in self.variables if each.max is None and not self.is_size(each)]
        for place, expr in self.places.items():
            if not expr.is_Symbol and not expr.is_Integer:
                found += [expr >= (-LARGEST_SIZE if place in self.ints else 0), expr <= LARGEST_SIZE]
        found = list(dict.fromkeys(found))
        return [*found, *self.relations]

    def points(self) -> int:
        """How many there are, those that a relation excludes included."""
        return math.prod(each.count() for each in self.variables)

    def point_of(self, sizes: Mapping[str, int]) -> Point:
        """The values of the variables where these sizes are found; OutsideDomain says what does not fit."""
        point = {each.symbol: sizes[place] for each in self.variables if (place := self.home(each)) is not None}
        for each in self.variables:
            for condition in each.conditions():
                if not evaluate(condition, point):
                    home = self.home(each)
                    raise OutsideDomain(f"{home} is {point[each.symbol]}, but it was declared as {each}")
        for place, expr in self.places.items():
            if evaluate(expr, point) != sizes[place]:
                raise OutsideDomain(
                    f"{place} is {sizes[place]}, but it was declared as {show(expr)}, which is "
                    f"{evaluate(expr, point)} for {at(point)}"
                )
        for relation in self.relations:
            if not evaluate(relation, point):
                raise OutsideDomain(f"{show(relation)} was declared, and does not hold for {at(point)}")
        return point

    def sizes_at(self, point: Point) -> dict[str, int]:
        """The size at each place."""
        return {place: int(evaluate(expr, point)) for place, expr in self.places.items()}

    def holds(self, point: Point) -> bool:
        """Whether the point lies in the domain."""
        return all(evaluate(condition, point) for condition in self.conditions())

    def samples(self, count: int, seed: int = 0) -> Iterator[Point]:
        """Points of the domain: corners first, then chosen evenly; fewer than `count` where relations leave few."""
        chance = random.Random(seed)
        for index in range(20 * count):
            point = {}
            for at_bit, each in enumerate(self.variables):
                last = min(each.count(), 1 << 20) - 1
                corners = index < min(1 << len(self.variables), 64)
                step = last * (index >> at_bit & 1) if corners else chance.randint(0, last)
                point[each.symbol] = each.first + step * each.multiple_of
            if self.holds(point):
                count -= 1
                yield point
            if count == 0:
                return

    def __str__(self) -> str:
        return ", ".join([*map(str, self.variables), *map(show, self.relations)])


def show(expr: Any) -> str:
    """An expression over variables as Python text."""
    return python_source(expr, {symbol: symbol.name for symbol in expr.free_symbols})


def at(point: Point) -> str:
    """`B = 4, S = 128`"""
    return ", ".join(f"{symbol.name} = {value}" for symbol, value in point.items())
