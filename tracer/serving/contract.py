"""Shape contracts: a file that says which calls are compiled, and the comparison of two such files.

The file is JSON, for each variant of the calls: what they have in common beside sizes (dtypes, devices, layouts, constants,
modes); the domain; the regions with their guards and the user's lines that caused them; along which sizes rows are independent;
what is known of the outputs, sizes as formulas; and each region as an SMT-LIB script. A shape is served if it lies in the domain
and in the region of an entry with a graph.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Collection
from typing import Any

from shapes import solver
from shapes.domain import Domain, Point, show
from shapes.regions import Region
from shapes.solver.problem import RLIMIT
from tracer.api.settings import compiled_region
from tracer.errors import UserError
from tracer.graph.independent_rows import rows_depend
from tracer.graph.same_graph import kinds_of_outputs
from tracer.runtime.shape_spec import ShapeSpec
from tracer.serving.call_facts import same_variant
from tracer.serving.contract_changes import KINDS, Change, Comparison
from tracer.serving.contract_records import Record
from tracer.serving.coverage_result import Coverage
from tracer.serving.regions import Served
from tracer.serving.variants import Certificate, known_variants
from tracer.whole_files import write_whole

VERSION = 2


@dataclasses.dataclass(frozen=True, eq=False)
class Contract:
    """What a function serves: `data` is the content of the file. Of calls of several kinds, "variants" is a list with a record of
    each; of one kind, the record stands there itself."""

    data: dict[str, Any]

    @classmethod
    def of(cls, function: str, coverage: Coverage | Certificate) -> Contract:
        records = list(map(_record, known_variants(coverage)))
        what = {"variants": records} if len(records) > 1 else records[0]
        return cls({"version": VERSION, "function": function, "certified": coverage.certified, **what})

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Contract:
        """Reads a contract from a file. Raises UserError if the file does not hold one."""
        try:
            with open(path, encoding="utf-8") as file:
                data = json.load(file)
            version = data["version"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{os.fspath(path)} is not a shape contract: {error}") from None
        if version != VERSION:
            raise UserError(f"{os.fspath(path)} is a shape contract of version {version}; this tracer reads version {VERSION}")
        return cls(data)

    def text(self) -> str:
        return json.dumps(self.data, indent=1) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the file, whole or not at all. Raises UserError for a path that cannot be written."""
        write_whole(path, self.text().encode())

    def records(self) -> list[Record]:
        """What the contract says of each variant."""
        return [Record(each) for each in self.data.get("variants", [self.data])]

    def variant(self, name: str) -> Contract:
        """The contract of one variant alone. Raises UserError if there is none of this name."""
        found = next((each.data for each in self.records() if each.name == name), None)
        if found is None:
            raise UserError(f"this contract has no variant {name!r}", hint=f"it has {self._names()}.")
        return Contract({**found, "version": VERSION, "function": self.data["function"]})

    def _names(self) -> str:
        return ", ".join(repr(each.name) for each in self.records())

    def _only_record(self) -> Record:
        if "variants" in self.data:
            raise UserError("this contract has several variants", hint=f"ask contract.variant(name), of {self._names()}.")
        return Record(self.data)

    def domain(self) -> Domain:
        """Raises UserError where the file's expressions cannot be read, or there are several variants."""
        return self._only_record().domain()

    def spec(self) -> ShapeSpec:
        """What another process declares that is to serve the same shapes: `precompile(fn, contract.spec(), example)`.

        Raises UserError if there are several variants."""
        return self._only_record().spec()

    def regions(self) -> list[Region]:
        """The regions in which a graph runs. Raises UserError if there are several variants."""
        return self._only_record().regions()


@dataclasses.dataclass(frozen=True)
class Difference:
    """How two contracts differ. `status`: "equivalent", "different", or "unknown" where the solver cannot tell and no difference
    is known. `lost`, `gained`: a shape that `old` serves and `new` does not, and the reverse."""

    status: str
    changes: tuple[Change, ...] = ()
    lost: Point | None = None
    gained: Point | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([self.status, *map(str, self.changes), *self.notes])


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
            f"it is not known yet which shapes {state.name} serves",
            hint="ask tracer.coverage(fn, spec, example), or precompile it.",
        )
    if not state.coverage.stands:
        raise UserError(
            f"entries of {state.name} have been dropped since its shapes were certified",
            hint="ask tracer.coverage, or precompile it.",
        )
    return Contract.of(state.name, state.coverage)


def difference(old: Contract, new: Contract, *, ignore: Collection[str] = (), rlimit: int = RLIMIT) -> Difference:
    """How two contracts differ: a proof that they do not, or each difference, with a witness.

    `ignore`: kinds of differences, of `KINDS`, that do not count. With "regions", for instance, two contracts are equivalent even
    if their entries divide the same shapes differently. Sizes are matched by place, or else by name or order; parameters by name,
    or else by position. Raises UserError for an unknown kind.
    """
    unknown_kind = next((kind for kind in ignore if kind not in KINDS), None)
    if unknown_kind is not None:
        raise UserError(f"{unknown_kind!r} is not a kind of difference", hint=f"there are {', '.join(KINDS)}.")
    pairs, changes = _matched(old.records(), new.records())
    found = [(before.name, Comparison(before, after, ignore, rlimit)) for before, after in pairs]
    several = len(pairs) > 1 or bool(changes)
    changes = [change for change in changes if change.kind not in ignore]
    for name, each in found:
        changes += [dataclasses.replace(change, text=f"{name}: {change.text}") if several else change for change in each.changes]
    unknown = list(dict.fromkeys(text for _, each in found for text in each.unknown))
    notes = (*unknown, *(note for _, each in found for note in each.notes))
    lost, gained = (next((getattr(each, what) for _, each in found if getattr(each, what)), None) for what in ("lost", "gained"))
    status = "different" if changes else "unknown" if unknown else "equivalent"
    return Difference(status, tuple(changes), lost, gained, notes)


def _matched(old: list[Record], new: list[Record]) -> tuple[list[tuple[Record, Record]], list[Change]]:
    """The variants of both that correspond to one another, and what has none: by name, else by kind of call, else by order."""
    pairs: list[tuple[Record, Record]] = []
    same: list[Callable[[Record, Record], bool]] = [
        lambda a, b: a.name == b.name,
        lambda a, b: same_variant(a.call, b.call),
        lambda a, b: len(old) == len(new),
    ]
    if len(old) == len(new) == 1:
        same = same[2:]
    elif {each.name for each in old} != {each.name for each in new}:
        same = [same[1], same[0], same[2]]
    for corresponds in same:
        for before in old:
            taken = [pair[1] for pair in pairs]
            after = next((each for each in new if each not in taken and corresponds(before, each)), None)
            if after is not None and before not in [pair[0] for pair in pairs]:
                pairs.append((before, after))
    lost = [each for each in old if each not in [pair[0] for pair in pairs]]
    gained = [each for each in new if each not in [pair[1] for pair in pairs]]
    changes = [Change("variants", f"{each.name!r} was there, and is not any more") for each in lost]
    return pairs, [*changes, *(Change("variants", f"{each.name!r} was not there, and is now") for each in gained)]


def _record(coverage: Coverage) -> dict[str, Any]:
    domain = coverage.domain
    return {
        "name": coverage.name,
        "certified": coverage.certified,
        "call": coverage.facts,
        "domain": {
            "sizes": [
                {"name": each.name, "min": each.min, "max": each.max, "multiple_of": each.multiple_of}
                for each in domain.variables
            ],
            "relations": list(map(show, domain.relations)),
            "places": {place: show(expr) for place, expr in domain.places.items()},
            "ints": sorted(domain.ints),
            "strides": sorted(domain.strides),
            "smtlib": solver.smtlib(domain.conditions()),
        },
        "breaks": [
            {
                "in": behind.function.partition(".<resume")[0],
                "line": "" if behind.location is None else behind.location.source_line(),
                "at": behind.where,
                "regions": [each.region.text(behind.domain) for each in behind.entries],
            }
            for behind in coverage.behind
        ],
        "not_covered": list(coverage.not_covered),
        "regions": sorted((_region_record(each, domain) for each in coverage.covering), key=lambda region: str(region["text"])),
    }


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
    ends_elsewhere = each.kind == "broken" or each.entry.guarded_code.graph is None
    return {
        "kind": each.kind,
        "text": each.region.text(domain),
        "guards": guards,
        "rows": _row_verdicts(each, domain),
        "outputs": [] if ends_elsewhere else [list(map(show, sizes)) for sizes in each.outputs],
        "kinds": [] if ends_elsewhere else kinds_of_outputs(each.entry.guarded_code.graph),
        "smtlib": solver.smtlib([*domain.conditions(), *(condition.expr for condition in conditions)]),
    }


def _row_verdicts(each: Served, domain: Domain) -> dict[str, str]:
    """size -> "independent" if the graph is proved to compute each row along it on its own, else why that is not known."""
    graph = each.entry.guarded_code.graph
    if each.kind != "graph" or graph is None:
        return {}
    inside = [*domain.conditions(), each.region.formula]
    # A size with one value in the region is never padded there.
    fixed = {variable.name for variable in domain.variables if solver.forced_value(inside, variable.symbol) is not None}
    sizes = [variable for variable in domain.variables if domain.is_size(variable)]
    reasons = {
        variable.name: None if variable.name in fixed else rows_depend(graph, variable.symbol, dict(each.places))
        for variable in sizes
    }
    no_size = "it is an int of the program, or a stride, not the size of a batch"
    reasons |= {variable.name: no_size for variable in domain.variables if not domain.is_size(variable)}
    return {name: reason or "independent" for name, reason in reasons.items()}
