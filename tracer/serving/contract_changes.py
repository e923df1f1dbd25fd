"""What differs between two contracts of one variant of calls. Each difference has a witness: a shape, or what was and what is."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sympy

from shapes import solver
from shapes.domain import Domain, Point, point_text, show
from shapes.evaluation import evaluate
from shapes.guards import Why
from shapes.parsing import parse_integer, variable
from shapes.regions import RETRY_FACTOR, Condition, Region
from shapes.solver import Answer
from tracer.serving.contract_alignment import align
from tracer.serving.contract_records import Record, parsed

KINDS = {
    "shapes": "which sizes and ints are served, and where they stand",
    "arguments": "parameters, what kinds of values and which constants they are given",
    "dtypes": "of the inputs, and of the modules among them",
    "devices": "of the inputs, and of the modules among them",
    "layouts": "strides and layouts of the inputs",
    "gradients": "which inputs require gradients",
    "modes": "grad mode, inference mode, autocast, training and the like",
    "outputs": "number, sizes, dtypes, devices and layouts of the outputs",
    "breaks": "lines at which graphs break, in calls that are served, and what is not covered after them",
    "regions": "which shapes are served by one entry",
    "rows": "along which sizes rows are independent",
    "certificate": "whether it is proved that all shapes are served",
    "variants": "which kinds of calls there are",
}
_OF_TENSOR = {"dtype": "dtypes", "device": "devices", "layout": "layouts", "requires_grad": "gradients"}
_OF_MODULE = {"dtype": "dtypes", "device": "devices", "training": "modes"}


@dataclasses.dataclass(frozen=True)
class Change:
    """One difference, in words that say what was and what is. `kind`: a key of KINDS. `at`: a shape at which it shows."""

    kind: str
    text: str
    at: Point | None = None

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}" + (f", at {point_text(self.at)}" if self.at else "")


class Comparison:
    """Compares two records of one variant. `changes` are the differences that are not ignored, `unknown` what the solver cannot
    tell, `notes` what is no difference and worth a line; `lost` and `gained` are shapes."""

    def __init__(self, old: Record, new: Record, ignored: Collection[str], rlimit: int) -> None:
        self.ignored, self.rlimit = ignored, rlimit
        self.changes: list[Change] = []
        self.unknown: list[str] = []
        self.notes: list[str] = []
        self.lost: Point | None = None
        self.gained: Point | None = None
        self.records = old, new
        renamed = self._renamed_parameters(old, new)
        arguments = {_with_root(path, renamed): fact for path, fact in new.call["arguments"].items()}
        self._compare_modes(old.call["modes"], new.call["modes"])
        self._compare_certificates(old, new)
        self._compare_breaks(old, new)
        self._compare_arguments(old.call["arguments"], arguments)
        before, after = old.domain(), _with_old_places(new.domain(), renamed)
        regions = [[region.formula for region in each.regions()] for each in self.records]
        self.aligned = align(before, after, old.call["arguments"], arguments)
        if self.aligned is None:
            text = " and ".join(", ".join(each.name for each in domain.variables) or "none" for domain in (before, after))
            self._add("shapes", f"the contracts are over other sizes: {text}")
            return
        self.names = self.aligned.names
        self.regions = regions[0], [formula.xreplace(dict(self.names)) for formula in regions[1]]
        self._compare_places(old.call["arguments"], arguments)
        self._compare_shapes()
        self._compare_entries()

    def _add(self, kind: str, text: str, at: Point | None = None) -> None:
        change = Change(kind, text, at)
        if kind not in self.ignored and all((each.kind, each.text) != (kind, text) for each in self.changes):
            self.changes.append(change)

    # -- what is no size -----------------------------------------------------------------------------------------------

    def _renamed_parameters(self, old: Record, new: Record) -> dict[str, str]:
        """New name -> old name, of parameters that stand at the same position under another name."""
        before, after = old.call["parameters"], new.call["parameters"]
        found = {name: was for was, name in zip(before, after) if was != name and was not in after and name not in before}
        self.notes += [f"the parameter {was} is named {name} now" for name, was in found.items()]
        kept = [found.get(name, name) for name in after]
        if [name for name in kept if name in before] != [name for name in before if name in kept]:
            self._add("arguments", f"the parameters were {', '.join(before)}, and are {', '.join(after)}")
        return found

    def _compare_modes(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        for name in dict.fromkeys([*old, *new]):
            if old.get(name) != new.get(name):
                self._add("modes", f"{name} was {old.get(name)}, and is {new.get(name)}")

    def _compare_certificates(self, old: Record, new: Record) -> None:
        if old.data.get("certified") and not new.data.get("certified"):
            self._add("certificate", "it was certified, and is not any more")

    def _compare_breaks(self, old: Record, new: Record) -> None:
        lines = [
            dict.fromkeys(f"{each['line'] or each['at']} in {each['in']}" for each in record.data.get("breaks", ()))
            for record in (old, new)
        ]
        for one, other, words in ((*lines, "is not after a break any more"), (*lines[::-1], "is after a break now")):
            for line in one:
                if line not in other:
                    self._add("breaks", f"what follows {line} {words}")
        if len(old.data.get("not_covered", ())) < len(new.data.get("not_covered", ())):
            self._add("breaks", f"not covered any more are {new.data['not_covered'][-1]}")

    def _compare_arguments(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        for path in dict.fromkeys([*old, *new]):
            before, after = old.get(path), new.get(path)
            if before is None or after is None:
                self._add("arguments", f"{path} was {_described(before)}, and is {_described(after)}")
            elif _described(before) != _described(after):
                self._add("arguments", f"{path} was {_described(before)}, and is {_described(after)}")
            elif before["kind"] == "tensor":
                self._compare_tensors(path, before, after)
            elif before["kind"] == "module":
                self._compare_fields(path, before, after, _OF_MODULE)
            elif before["kind"] == after["kind"] == "constant" and before["value"] != after["value"]:
                self._add("arguments", f"{path} was {before['value']}, and is {after['value']}")

    def _compare_tensors(self, path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        self._compare_fields(path, old, new, _OF_TENSOR)
        if len(old["shape"]) != len(new["shape"]):
            self._add("shapes", f"{path} had {len(old['shape'])} dims, and has {len(new['shape'])}")
            return
        for dim, (was, now) in enumerate(zip(old["shape"], new["shape"])):
            if was != now and isinstance(was, int) and isinstance(now, int):
                self._add("shapes", f"{path}.size()[{dim}] was {was}, and is {now}")

    def _compare_fields(self, path: str, old: Mapping[str, Any], new: Mapping[str, Any], kinds: Mapping[str, str]) -> None:
        for key, kind in kinds.items():
            if old[key] != new[key]:
                self._add(kind, f"{key} of {path} was {old[key]}, and is {new[key]}")

    # -- sizes ---------------------------------------------------------------------------------------------------------

    def _compare_places(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """Sizes that are computed, and strides: both have to be the same for all shapes that both declare."""
        assert self.aligned is not None  # else nothing is compared
        for place, was in self.aligned.places[0].items():
            now = self.aligned.places[1].get(place)
            if now is not None:
                self._compare_numbers("shapes", place, was, now, self.aligned.inside)
        for path in old.keys() & new.keys():
            was, now = (fact.get("strides", ()) for fact in (old[path], new[path]))
            for dim, (a, b) in enumerate(zip(was, now)):
                several = self._old(old[path]["shape"][dim]) >= 2  # else no element lies by that stride
                self._compare_numbers("layouts", f"{path}.stride()[{dim}]", self._old(a), self._new(b), [*self._inside, several])

    def _compare_numbers(self, kind: str, what: str, was: Any, now: Any, inside: Sequence[Any]) -> None:
        if was == now or kind in self.ignored:
            return
        answer = self._ask([*inside, sympy.Ne(was, now)])
        if answer.status == "sat":
            point = self._point(answer)
            values = [evaluate(each, point) for each in (was, now)]
            self._add(kind, f"{what} was {show(was)}, and is {show(now)}: {values[0]} and {values[1]}", point)
        elif answer.status == "unknown":
            self.unknown.append(f"the solver cannot tell whether {what} is the same")

    def _compare_shapes(self) -> None:
        assert self.aligned is not None
        if "shapes" in self.ignored:
            return
        old, new = ([sympy.And(*facts, region) for region in of] for facts, of in zip(self.aligned.facts, self.regions))
        self.lost = self._compare_served(old, new, "lost")
        self.gained = self._compare_served(new, old, "gained")

    def _compare_served(self, one: Sequence[Any], other: Sequence[Any], what: str) -> Point | None:
        found = self._find_difference(one, other)
        if found is None:
            self.unknown.append(f"the solver cannot tell whether a shape was {what}")
        elif found:
            words = "was served, and is not any more" if what == "lost" else "was not served, and is now"
            self._add("shapes", f"{what}: {point_text(found)} {words}")
        return found or None

    def _find_difference(self, one: Sequence[Any], other: Sequence[Any]) -> Point | None:
        """A shape in `one` and not in `other`; empty if there is none; None if the solver does not know."""
        unknown = False
        for part in one:
            answer = self._ask([part], none_of=other)
            if answer.status == "sat":
                return self._point(answer)
            unknown = unknown or answer.status == "unknown"
        return None if unknown else {}

    # -- entries -------------------------------------------------------------------------------------------------------

    def _compare_entries(self) -> None:
        old, new = self.regions
        same = {}
        for i, one in enumerate(old):
            point = self._any([*self._inside, one])
            near = [j for j, other in enumerate(new) if point is not None and _holds(other, point) and self._equal(one, other)]
            if near:
                same[i] = near[0]
        for i, j in same.items():
            self._compare_results(i, j, [*self._inside, old[i]])
        rest = [(i, j) for i in range(len(old)) for j in range(len(new)) if i not in same or j not in same.values()]
        for i, j in rest:
            answer = self._ask([*self._inside, old[i], new[j]])
            if answer.status == "sat":
                self._compare_results(i, j, [*self._inside, old[i], new[j]])
            elif answer.status == "unknown":
                self.unknown.append("the solver cannot tell which entries serve one shape in both")
        if "regions" not in self.ignored:
            self._compare_partitions(old, new, "were served by one entry, and are by two now")
            self._compare_partitions(new, old, "were served by two entries, and are by one now")
        elif len(old) != len(new):
            self.notes.append(f"regions: {len(old)} before, {len(new)} now")

    @property
    def _inside(self) -> list[Any]:
        assert self.aligned is not None
        return self.aligned.inside

    def _equal(self, one: Any, other: Any) -> bool:
        one, other = (sympy.And(*self._inside, each) for each in (one, other))
        return all(self._ask([a], none_of=[b]).status == "unsat" for a, b in ((one, other), (other, one)))

    def _compare_results(self, i: int, j: int, inside: Sequence[Any]) -> None:
        before, after = (record.graph_regions()[index] for record, index in zip(self.records, (i, j)))
        self._compare_outputs(before, after, inside)
        now = {self.names[variable(name)].name: verdict for name, verdict in after.get("rows", {}).items()}
        for name, verdict in before.get("rows", {}).items():
            if name in now and (verdict == "independent") != (now[name] == "independent"):
                words = ("independent, and may depend on each other now", "perhaps dependent, and are independent now")
                self._add("rows", f"rows along {name} were {words[verdict != 'independent']}", self._any(inside))

    def _compare_outputs(self, old: Mapping[str, Any], new: Mapping[str, Any], inside: Sequence[Any]) -> None:
        if len(old["outputs"]) != len(new["outputs"]):
            self._add("outputs", f"there were {len(old['outputs'])}, and are {len(new['outputs'])}", self._any(inside))
            return
        kinds = zip(old["kinds"], new["kinds"])
        for index, (was, now, (kind, kind_now)) in enumerate(zip(old["outputs"], new["outputs"], kinds)):
            if kind != kind_now:
                self._add("outputs", f"output {index} was {kind}, and is {kind_now}", self._any(inside))
            if len(was) != len(now):
                self._add("outputs", f"output {index} had {len(was)} dims, and has {len(now)}", self._any(inside))
                continue
            for dim, (a, b) in enumerate(zip(was, now)):
                self._compare_numbers("outputs", f"size {dim} of output {index}", self._old(a), self._new(b), inside)

    def _compare_partitions(self, one: Sequence[Any], other: Sequence[Any], words: str) -> None:
        """Finds two shapes that one entry of `one` serves, and no entry of `other` serves both of."""
        for region in one:
            starts = [self._ask([*self._inside, region]), *(self._ask([*self._inside, region], none_of=[each]) for each in other)]
            for point in (self._point(answer) for answer in starts if answer.status == "sat"):
                around = [each for each in other if _holds(each, point)]
                second = self._ask([*self._inside, region, sympy.Or(*other)], none_of=around) if around else Answer("unsat")
                if second.status == "sat":
                    self._add("regions", f"{point_text(self._point(second))} and {point_text(point)} {words}")
                    return
                if second.status == "unknown":
                    self.unknown.append("the solver cannot tell whether shapes are divided among entries as before")

    # -- the solver ----------------------------------------------------------------------------------------------------

    def _ask(self, holds: Sequence[Any], none_of: Sequence[Any] = ()) -> Answer:
        answer = Answer("unknown")
        for limit in (self.rlimit, RETRY_FACTOR * self.rlimit):
            answer = solver.satisfy(holds, none_of=none_of, rlimit=limit)
            if answer.status != "unknown":
                break
        return answer

    def _any(self, inside: Sequence[Any]) -> Point | None:
        answer = self._ask(inside)
        return self._point(answer) if answer.status == "sat" else None

    def _point(self, answer: Answer) -> Point:
        values = answer.values or {}
        return {symbol: values[symbol] for symbol in sorted(values, key=str)}

    def _old(self, text: Any) -> Any:
        return parsed(parse_integer, str(text))

    def _new(self, text: Any) -> Any:
        return parsed(parse_integer, str(text)).xreplace(dict(self.names))


def _holds(formula: Any, point: Point) -> bool:
    return Region((Condition(formula, Why.BRANCH),)).check(point)


def _described(fact: Mapping[str, Any] | None) -> str:
    """What kind of value it is, in words."""
    if fact is None:
        return "not there"
    kind, cls = fact["kind"], str(fact.get("type"))
    if kind == "int" or cls == "int":
        return "an int"
    return "None" if cls == "NoneType" else f"a {cls}"


def _with_root(path: str, renamed: Mapping[str, str]) -> str:
    """A path with the old name of its parameter."""
    root = re.match(r"\w*", path)[0]  # type: ignore[index]  # matches everything
    return renamed.get(root, root) + path[len(root) :]


def _with_old_places(domain: Domain, renamed: Mapping[str, str]) -> Domain:
    """A domain in whose places parameters have their old names."""
    changed = {place: re.sub(r"(?<=^L\[')\w+", lambda found: renamed.get(found[0], found[0]), place) for place in domain.places}
    return dataclasses.replace(
        domain,
        places={changed[place]: expr for place, expr in domain.places.items()},
        ints=frozenset(changed[place] for place in domain.ints),
    )
