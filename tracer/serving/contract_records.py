"""What a contract says of one variant of calls, read from its JSON: the domain, a spec, the regions."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from shapes.domain import Domain, Variable
from shapes.guards import Why
from shapes.parsing import ParseError, parse_condition, parse_integer
from shapes.regions import Condition, Region
from tracer.errors import UserError
from tracer.runtime.shape_spec import ShapeSpec

_PLACE = re.compile(r"L\['(\w+)'\](.*?)(?:\.(size|stride)\(\)\[(\d+)\])?")  # L['batch']['ids'].size()[0], or L['n']


@dataclasses.dataclass(frozen=True, eq=False)
class Record:
    """One variant. `data` has "name", "certified", "call" (see `call_facts`), "domain" and "regions"."""

    data: dict[str, Any]

    @property
    def name(self) -> str:
        return str(self.data.get("name", ""))

    @property
    def call(self) -> dict[str, Any]:
        found: dict[str, Any] = self.data["call"]
        return found

    def domain(self) -> Domain:
        """Raises UserError where the file's expressions cannot be read."""
        of = self.data["domain"]
        variables = tuple([Variable(each["name"], each["min"], each["max"], each["multiple_of"]) for each in of["sizes"]])
        places = {place: parsed(parse_integer, text) for place, text in of["places"].items()}
        relations = tuple([parsed(parse_condition, text) for text in of["relations"]])
        return Domain(variables, places, relations, frozenset(of.get("ints", ())), frozenset(of.get("strides", ())))

    def spec(self) -> ShapeSpec:
        """What another process declares that is to serve the same shapes, in the same modes if the spec named any."""
        of = self.data["domain"]
        dims: dict[str, dict[int, str]] = {}
        strides: dict[str, list[str]] = {}
        for place, text in of["places"].items():
            path, what, dim = place_parts(place)
            if what == "stride":
                strides.setdefault(path, []).append(text)
            else:
                dims.setdefault(path, {})[dim] = text
        sizes = {each["name"]: (each["min"], each["max"], each["multiple_of"]) for each in of["sizes"]}
        return ShapeSpec(dims, of["relations"], strided=strides, modes=self.call["modes"].get("modes", ()), **sizes)

    def graph_regions(self) -> list[dict[str, Any]]:
        """The data of the regions in which a graph runs, if only up to a break after which everything is covered."""
        return [region for region in self.data["regions"] if region["kind"] != "python"]

    def regions(self) -> list[Region]:
        """The regions in which a graph runs."""
        found = []
        for region in self.graph_regions():
            exprs = [parsed(parse_condition, guard["text"]) for guard in region["guards"]]
            found.append(Region(tuple([Condition(expr, Why.BRANCH) for expr in exprs])))
        return found


def place_parts(place: str) -> tuple[str, str, int]:
    """`L['batch']['ids'].size()[1]` -> ("batch['ids']", "size", 1); `L['n']` -> ("n", "", 0). Raises UserError for others."""
    found = _PLACE.fullmatch(place)
    if found is None:
        raise UserError(f"{place}, of this contract, is not a dim of an argument")
    return found[1] + found[2], found[3] or "", int(found[4] or 0)


def parsed(parse: Any, text: str) -> Any:
    try:
        return parse(text)
    except ParseError as error:
        raise UserError(f"this contract cannot be compared: {error}") from None
