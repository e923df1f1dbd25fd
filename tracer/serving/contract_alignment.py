"""Two domains over common sizes: one symbol for each place at which one of them has a size of its own.

So a size that was declared and is fixed now, or that was of its own and is computed now, is a difference with a witness.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import sympy

from shapes.domain import Domain, Variable
from shapes.parsing import variable
from tracer.serving.contract_records import place_parts

Arguments = Mapping[str, Any]  # path of an argument -> its fact; see `call_facts`


@dataclasses.dataclass(frozen=True, eq=False)
class Aligned:
    """`facts`: the conditions under which a call lies in the old and in the new domain. `names`: symbol of the new domain ->
    common symbol; those of the old domain are common."""

    facts: tuple[list[Any], list[Any]]
    names: Mapping[Any, Any]
    places: tuple[Mapping[str, Any], Mapping[str, Any]]  # place -> expression over the common symbols

    @property
    def inside(self) -> list[Any]:
        """The conditions under which a call lies in both domains."""
        return [*self.facts[0], *self.facts[1]]


def align(old: Domain, new: Domain, old_arguments: Arguments, new_arguments: Arguments) -> Aligned | None:
    """None if no sizes correspond: no place is in both domains, and they have other names and another number of sizes."""
    own = {place: each.symbol for each in old.variables if (place := old.own_place(each)) is not None}
    if not old.places.keys() & new.places.keys():
        names = _by_name_or_order(old, new)
        return None if names is None else _aligned(old, new, {}, names, ({}, {}))
    taken = {each.name for each in old.variables}
    names = {}
    for each in new.variables:
        places = [place for place, expr in new.places.items() if expr == each.symbol]
        at = next((place for place in places if place in own), places[0])
        if at not in own:
            own[at] = _fresh(each, taken)
        names[each.symbol] = own[at]
    fixed = tuple({place: _fixed(arguments, place) for place in own} for arguments in (old_arguments, new_arguments))
    return _aligned(old, new, own, names, (fixed[0], fixed[1]))


def _aligned(
    old: Domain, new: Domain, own: Mapping[Any, Any], names: Mapping[Any, Any], fixed: tuple[Mapping[Any, Any], Mapping[Any, Any]]
) -> Aligned:
    places = dict(old.places), {place: expr.xreplace(dict(names)) for place, expr in new.places.items()}
    conditions = old.conditions(), [condition.xreplace(dict(names)) for condition in new.conditions()]
    for side in range(2):
        for place, symbol in own.items():
            expr = places[side].get(place, fixed[side].get(place))
            if expr is not None and expr != symbol:
                conditions[side].append(sympy.Eq(symbol, expr))
    return Aligned(conditions, names, places)


def _fresh(each: Variable, taken: set[str]) -> Any:
    name = each.name
    while name in taken:
        name += "_"
    taken.add(name)
    return variable(name)


def _fixed(arguments: Arguments, place: str) -> Any:
    """The number that stands at a place in all calls; None if that is not known."""
    path, what, dim = place_parts(place)
    fact = arguments.get(path, {})
    if not what:
        return sympy.Integer(int(fact["value"])) if fact.get("kind") == "constant" and fact.get("type") == "int" else None
    numbers = fact.get("shape" if what == "size" else "strides", ())
    return sympy.Integer(numbers[dim]) if dim < len(numbers) and isinstance(numbers[dim], int) else None


def _by_name_or_order(old: Domain, new: Domain) -> dict[Any, Any] | None:
    if len(old.variables) != len(new.variables):
        return None
    if {each.name for each in old.variables} == {each.name for each in new.variables}:
        return {each.symbol: each.symbol for each in new.variables}
    return {of.symbol: each.symbol for of, each in zip(new.variables, old.variables)}
