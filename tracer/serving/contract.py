"""Shape contracts: a file that says which shapes of a domain are compiled, and the comparison of two such files.

The file is JSON: the domain; the regions with their guards and the user's lines that caused them; along which sizes rows are
independent; output sizes as formulas; and each region as an SMT-LIB script. A shape is served if it lies in the domain and in the
region of an entry with a graph.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

import sympy

from shapes import solver
from shapes.domain import Domain, Point, Variable, point_text, show
from shapes.guards import Why
from shapes.parsing import ParseError, parse_condition, parse_integer
from shapes.regions import RETRY_FACTOR, Condition, Region
from shapes.solver.problem import RLIMIT
from tracer.api.settings import compiled_region
from tracer.errors import UserError
from tracer.graph.independent_rows import rows_depend
from tracer.runtime.shape_spec import ShapeSpec
from tracer.serving.coverage import Coverage
from tracer.serving.regions import Served

VERSION = 1
_PLACE = re.compile(r"L\['(\w+)'\](.*?)(?:\.size\(\)\[(\d+)\])?")  # L['batch']['ids'].size()[0], or L['n']


@dataclasses.dataclass(frozen=True, eq=False)
class Contract:
    """What a function serves: `data` is the content of the file."""

    data: dict[str, Any]

    @classmethod
    def of(cls, function: str, coverage: Coverage) -> Contract:
        domain = coverage.domain
        facts = domain.conditions()
        return cls(
            {
                "version": VERSION,
                "function": function,
                "certified": coverage.certified,
                "domain": {
                    "sizes": [
                        {"name": each.name, "min": each.min, "max": each.max, "multiple_of": each.multiple_of}
                        for each in domain.variables
                    ],
                    "relations": list(map(show, domain.relations)),
                    "places": {place: show(expr) for place, expr in domain.places.items()},
                    "ints": sorted(domain.ints),
                    "smtlib": solver.smtlib(facts),
                },
                "regions": sorted(
                    (_region_record(each, domain) for each in coverage.covering), key=lambda region: str(region["text"])
                ),
            }
        )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Contract:
        """From a file. Raises UserError for one that is no contract."""
        try:
            with open(path, encoding="utf-8") as file:
                data = json.load(file)
            version = data["version"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{os.fspath(path)} is no shape contract: {error}") from None
        if version != VERSION:
            raise UserError(f"{os.fspath(path)} is a shape contract of version {version}; this tracer reads version {VERSION}")
        return cls(data)

    def text(self) -> str:
        return json.dumps(self.data, indent=1) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text())

    def domain(self) -> Domain:
        """Raises UserError where the file's expressions cannot be read."""
        of = self.data["domain"]
        variables = tuple([Variable(each["name"], each["min"], each["max"], each["multiple_of"]) for each in of["sizes"]])
        places = {place: _parse(parse_integer, text) for place, text in of["places"].items()}
        relations = tuple([_parse(parse_condition, text) for text in of["relations"]])
        return Domain(variables, places, relations, frozenset(of.get("ints", ())))

    def spec(self) -> ShapeSpec:
        """What another process declares that is to serve the same shapes: `precompile(fn, contract.spec(), example)`."""
        of = self.data["domain"]
        dims: dict[str, dict[int, str]] = {}
        for place, text in of["places"].items():
            found = _PLACE.fullmatch(place)
            if found is None:
                raise UserError(f"{place}, of this contract, is no dim of an argument")
            dims.setdefault(found[1] + found[2], {})[int(found[3] or 0)] = text
        sizes = {each["name"]: (each["min"], each["max"], each["multiple_of"]) for each in of["sizes"]}
        return ShapeSpec(dims, of["relations"], **sizes)

    def regions(self) -> list[Region]:
        """The regions in which a graph runs."""
        found = []
        for region in self.data["regions"]:
            if region["kind"] == "graph":
                exprs = [_parse(parse_condition, guard["text"]) for guard in region["guards"]]
                found.append(Region(tuple([Condition(expr, Why.BRANCH) for expr in exprs])))
        return found


@dataclasses.dataclass(frozen=True)
class Difference:
    """What `new` serves and `old` does not, and the reverse. `status`: "equivalent", "different", or "unknown" where the solver
    cannot tell and no difference is known."""

    status: str
    lost: Point | None = None
    gained: Point | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [self.status]
        if self.lost is not None:
            lines.append(f"lost: {point_text(self.lost)} was served, and is not any more")
        if self.gained is not None:
            lines.append(f"gained: {point_text(self.gained)} was not served, and is now")
        return "\n".join([*lines, *self.notes])


def contract(fn: Any) -> Contract:
    """The contract of a compiled object: what `precompile` or `coverage` last found of it. Raises UserError before that.

    ```python
    compiled = tracer.compile(lambda x: x.flatten() * 2, shapes="x: B, S; B in 1..8; S in 1..64")
    tracer.precompile(compiled, example=(torch.ones(3, 5),))
    found = tracer.contract(compiled)
    assert found.spec() and "regions" in found.data
    ```
    """
    state = compiled_region(fn)
    if state.coverage is None:
        raise UserError(
            f"it is not known yet what {state.name} serves", hint="ask tracer.coverage(fn, spec, example), or precompile it."
        )
    if not state.coverage.stands:
        raise UserError(f"entries of {state.name} have gone since that was asked", hint="ask tracer.coverage, or precompile it.")
    return Contract.of(state.name, state.coverage)


def difference(old: Contract, new: Contract, *, rlimit: int = RLIMIT) -> Difference:
    """Which shapes one serves and the other does not: a proof that there are none, or one of them. Sizes are matched by place,
    by name, or by order."""
    before, after = old.domain(), new.domain()
    names = _match_variables(before, after)
    if names is None:
        text = " and ".join(", ".join(each.name for each in domain.variables) for domain in (before, after))
        return Difference("different", notes=(f"the contracts are over other sizes: {text}",))
    old_formulas, new_formulas = _served_formulas(before, old.regions(), {}), _served_formulas(after, new.regions(), names)
    lost, gained = (
        _find_difference(old_formulas, new_formulas, before, rlimit),
        _find_difference(new_formulas, old_formulas, before, rlimit),
    )
    sides = (("lost", lost), ("gained", gained))
    notes = [f"the solver cannot tell whether a shape was {what}" for what, found in sides if not found]
    if len(old.regions()) != len(new.regions()):
        notes.append(f"regions: {len(old.regions())} before, {len(new.regions())} now")
    lost_at, gained_at = (found[0] if found else None for found in (lost, gained))
    if lost_at is not None or gained_at is not None:
        return Difference("different", lost_at, gained_at, tuple(notes))
    return Difference("equivalent" if lost and gained else "unknown", notes=tuple(notes))


def _region_record(each: Served, domain: Domain) -> dict[str, Any]:
    guards = []
    conditions = each.region.conditions_beyond(domain)
    for condition in conditions:
        where = condition.where
        guard = {"text": show(condition.expr), "why": condition.why.value}
        if where is not None:
            place = f"{os.path.basename(where.filename)}:{where.lineno}"
            guard |= {"line": where.source_line(), "at": place, "in": where.function}
        guards.append(guard)
    return {
        "kind": each.kind,
        "text": each.region.text(domain),
        "guards": guards,
        "rows": _row_verdicts(each, domain),
        "outputs": [list(map(show, sizes)) for sizes in each.outputs],
        "smtlib": solver.smtlib([*domain.conditions(), *(condition.expr for condition in conditions)]),
    }


def _row_verdicts(each: Served, domain: Domain) -> dict[str, str]:
    """size -> "independent" if the graph is proved to compute each row along it on its own, else why that is not known."""
    graph = each.entry.guarded_code.graph
    if each.kind != "graph" or graph is None:
        return {}
    inside = [*domain.conditions(), each.region.formula]
    # A size with one value in the region is never padded there.
    fixed = {of.name for of in domain.variables if solver.forced_value(inside, of.symbol) is not None}
    reasons = {of.name: None if of.name in fixed else rows_depend(graph, of.symbol, dict(each.places)) for of in domain.variables}
    no_size = "it is an int of the program, not the size of a batch"
    reasons |= {of.name: no_size for of in domain.variables if not domain.is_size(of)}
    return {name: reason or "independent" for name, reason in reasons.items()}


def _parse(parse: Any, text: str) -> Any:
    try:
        return parse(text)
    except ParseError as error:
        raise UserError(f"this contract cannot be compared: {error}") from None


def _match_variables(before: Domain, after: Domain) -> dict[Any, Any] | None:
    """size of `after` -> size of `before`. Matched by the places where they are found, else by name, else by order."""
    if len(before.variables) != len(after.variables):
        return None
    old = {before.own_place(each): each.symbol for each in before.variables}
    found = {each.symbol: old.get(after.own_place(each)) for each in after.variables}
    if None not in found.values():
        return found
    if {each.name for each in before.variables} == {each.name for each in after.variables}:
        return {each.symbol: each.symbol for each in after.variables}
    return {new.symbol: each.symbol for new, each in zip(after.variables, before.variables)}


def _served_formulas(domain: Domain, regions: Sequence[Region], names: Mapping[Any, Any]) -> list[Any]:
    """For each region, the formula of the shapes of the domain that lie in it."""
    return [sympy.And(*domain.conditions(), region.formula).xreplace(dict(names)) for region in regions]


def _find_difference(one: Sequence[Any], other: Sequence[Any], domain: Domain, rlimit: int) -> tuple[Point | None] | None:
    """(shape,) for a shape that lies in `one` and not in `other`; (None,) if there is none; None if the solver does not know."""
    unknown = False
    for part in one:
        for limit in (rlimit, RETRY_FACTOR * rlimit):
            answer = solver.satisfy([part], none_of=other, rlimit=limit)
            if answer.status == "sat" and answer.values is not None:
                return ({each.symbol: answer.values.get(each.symbol, each.smallest) for each in domain.variables},)
            if answer.status == "unsat":
                break
        else:
            unknown = True
    return None if unknown else (None,)
