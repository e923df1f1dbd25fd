"""Shape domains: the sizes that a program may be called with, as named integers with bounds and relations, and their places.

A user declares a domain for the inputs of a program. A `ShapeEnv` to which one is declared (`declare`) has a symbol for each
variable, uses the facts of the domain while tracing, and emits guards that check them at the entry.
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
    """The sizes of a call lie outside of the declared domain."""


@dataclasses.dataclass(frozen=True)
class Variable:
    """A named size, or int: min <= it <= max (none: as large as a size can be), and a multiple of `multiple_of`."""

    name: str
    min: int = 1
    max: int | None = None
    multiple_of: int = 1

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise ValueError(f"{self.name!r} cannot be the name of a size: it has to be a Python identifier")
        for field in ("min", "max", "multiple_of"):
            value = getattr(self, field)
            if value is None and field == "max":
                continue
            if not isinstance(value, int) or isinstance(value, bool):
                raise TypeError(f"{field} of {self.name} must be an int, not {value!r}")
            if not (1 if field == "multiple_of" else -LARGEST_SIZE) <= value <= LARGEST_SIZE:
                raise ValueError(f"{field} of {self.name} is {value}, which is outside the range of sizes")
        if self.smallest > self.largest:
            raise ValueError(f"no size satisfies what is declared of {self.name}: {self}")

    @property
    def symbol(self) -> Any:
        return variable(self.name)

    @property
    def largest(self) -> int:
        return LARGEST_SIZE if self.max is None else self.max

    @property
    def smallest(self) -> int:
        """The smallest value."""
        return -(-self.min // self.multiple_of) * self.multiple_of

    def count(self) -> int:
        return (self.largest - self.smallest) // self.multiple_of + 1

    def may_be(self, value: int) -> bool:
        """Whether the `conditions` hold for a value."""
        return self.min <= value and (self.max is None or value <= self.max) and value % self.multiple_of == 0

    def values(self) -> range:
        return range(self.smallest, self.largest + 1, self.multiple_of)

    def conditions(self) -> list[Any]:
        return list(_conditions(self))

    def __str__(self) -> str:
        upper = "" if self.max is None else f" <= {self.max}"
        step = "" if self.multiple_of == 1 else f", {self.name} % {self.multiple_of} == 0"
        return f"{self.min} <= {self.name}{upper}{step}"


@functools.lru_cache(maxsize=1024)
def _conditions(of: Variable) -> tuple[Any, ...]:
    found = [of.symbol >= of.min]
    if of.max is not None:
        found.append(of.symbol <= of.max)
    if of.multiple_of > 1:
        found.append(sympy.Eq(PythonMod(of.symbol, of.multiple_of), 0))
    return tuple(found)


@dataclasses.dataclass(frozen=True)
class Domain:
    """`places`: the name of a label (`L['x'].size()[0]`) -> the size there, an expression over the variables. `ints`: the places
    of ints of the program (`L['n']`), which may be negative. `strides`: the places of strides (`L['x'].stride()[0]`)."""

    variables: tuple[Variable, ...]
    places: Mapping[str, Any]
    relations: tuple[Any, ...] = ()
    ints: frozenset[str] = frozenset()
    strides: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        known = {each.symbol for each in self.variables}
        for expr in (*self.places.values(), *self.relations):
            for symbol in sorted(expr.free_symbols - known, key=str):
                raise ValueError(f"{symbol} in {show(expr)} is not a declared size; declared are {', '.join(map(str, known))}")
        for each in self.variables:
            home = self.own_place(each)
            if home is None:
                raise ValueError(
                    f"{each.name} is only used in expressions: some dim of an input has to be {each.name} itself, "
                    f"so that its value can be read"
                )
            if each.min < 0 and home not in self.ints:
                raise ValueError(f"min of {each.name} is {each.min}, but {each.name} is the size of a dim")

    def own_place(self, each: Variable) -> str | None:
        """The first place whose value is this variable, if possible one of a size; None if there is none."""
        return self._own_places.get(each.symbol)

    @functools.cached_property
    def _own_places(self) -> dict[Any, str]:
        found: dict[Any, str] = {}
        for place in sorted(self.places, key=(self.ints | self.strides).__contains__):
            if self.places[place].is_Symbol:
                found.setdefault(self.places[place], place)
        return found

    def is_size(self, each: Variable) -> bool:
        """Whether the variable is the size of a dim, and no stride, and not only an int of the program."""
        return self.own_place(each) not in self.ints | self.strides

    def is_stride(self, each: Variable) -> bool:
        return self.own_place(each) in self.strides

    def conditions(self) -> list[Any]:
        """The conditions on the variables that define the domain."""
        found = [condition for each in self.variables for condition in each.conditions()]
        found += [
            each.symbol <= LARGEST_SIZE for each in self.variables if each.max is None and self.own_place(each) in self.ints
        ]
        for place, expr in self.places.items():
            if not expr.is_Symbol and not expr.is_Integer:
                found += [expr >= (-LARGEST_SIZE if place in self.ints else 0), expr <= LARGEST_SIZE]
        found = list(dict.fromkeys(found))
        return [*found, *self.relations]

    def points(self) -> int:
        """The number of points within the bounds, including those that a relation excludes."""
        return math.prod(each.count() for each in self.variables)

    def point_of(self, sizes: Mapping[str, int]) -> Point:
        """The values of the variables for these sizes. Raises OutsideDomain, with the reason, if they lie outside."""
        point = {each.symbol: sizes[place] for each in self.variables if (place := self.own_place(each)) is not None}
        for each in self.variables:
            if not each.may_be(point[each.symbol]):
                raise OutsideDomain(f"{self.own_place(each)} is {point[each.symbol]}, but it was declared as {each}")
        for place, expr in self.places.items():
            if (point[expr] if expr.is_Symbol else evaluate(expr, point)) != sizes[place]:
                computed = f", which is {evaluate(expr, point)} for {point_text(point)}" if expr.free_symbols else ""
                raise OutsideDomain(f"{place} is {sizes[place]}, but it was declared as {show(expr)}{computed}")
        for relation in self.relations:
            if not evaluate(relation, point):
                raise OutsideDomain(f"{show(relation)} was declared, and does not hold for {point_text(point)}")
        return point

    def sizes_at(self, point: Point) -> dict[str, int]:
        """The size at each place."""
        return {place: int(evaluate(expr, point)) for place, expr in self.places.items()}

    def named_places(self) -> dict[str, str]:
        """The places of sizes and ints, each with what is there as text: `L['x'].size()[0]` -> `B`."""
        return {place: show(expr) for place, expr in self.places.items() if place not in self.strides}

    def holds(self, point: Point) -> bool:
        """Whether the point lies in the domain."""
        return all(evaluate(condition, point) for condition in self.conditions())

    def samples(self, count: int, seed: int = 0) -> Iterator[Point]:
        """Points of the domain: corners first, then uniformly random ones; fewer than `count` if relations exclude most."""
        chance = random.Random(seed)
        for index in range(20 * count):
            point = {}
            for at_bit, each in enumerate(self.variables):
                last = min(each.count(), 1 << (chance.randint(1, 12) if self.is_stride(each) else 20)) - 1
                corners = index < min(1 << len(self.variables), 64)
                step = last * (index >> at_bit & 1) if corners else chance.randint(0, last)
                point[each.symbol] = each.smallest + step * each.multiple_of
            if self.holds(point):
                count -= 1
                yield point
            if count == 0:
                return

    def __str__(self) -> str:
        free = {each.symbol for each in self.variables if self.is_stride(each) and each == Variable(each.name, min=0)}
        free -= {symbol for relation in self.relations for symbol in relation.free_symbols}
        sizes = [str(each) for each in self.variables if each.symbol not in free]
        strided = dict.fromkeys(place.partition(".stride()")[0] for place in self.strides if self.places[place] in free)
        return ", ".join([*sizes, *map(show, self.relations), *(f"any strides of {tensor}" for tensor in sorted(strided))])


def show(expr: Any) -> str:
    """An expression over variables as Python text."""
    return python_source(expr, {symbol: symbol.name for symbol in expr.free_symbols})


def point_text(point: Point) -> str:
    """`B = 4, S = 128`"""
    return ", ".join(f"{symbol.name} = {value}" for symbol, value in point.items())
