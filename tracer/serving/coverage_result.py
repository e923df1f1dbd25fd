"""`Coverage`: what is known of the entries for a domain of sizes, and how it is told."""

from __future__ import annotations

import dataclasses
from typing import Any

from shapes.domain import Domain, Point, point_text
from shapes.regions import Region, nearest
from tracer.runtime.call_metadata import CallMetadata
from tracer.serving.after_breaks import Behind
from tracer.serving.assumptions import Assumption, dividing_assumptions
from tracer.serving.call_facts import Facts
from tracer.serving.readiness import Probe
from tracer.serving.regions import Served, covers

SHARE = 1000  # number of sampled shapes from which the covered share of a domain is estimated


@dataclasses.dataclass(frozen=True, eq=False)
class Coverage:
    """Whether every shape of a domain has an entry. True in a condition only if that is proved.

    `status`: "certified", proved; "uncovered", `witness` is a shape without an entry; "unknown", the solver cannot tell;
    "budget", it ended before that was known; "broken", the graph breaks at `witness`; "refused", nothing can be traced there.
    """

    domain: Domain
    status: str
    entries: tuple[Served, ...]
    witness: Point | None = None
    reason: str = ""
    seconds: float = 0.0
    probes: tuple[Probe, ...] = ()  # of each entry, a call that it served when this was certified
    name: str = ""  # of the variant, if there are several
    facts: Facts = dataclasses.field(default_factory=dict)  # what all its calls have in common; see `call_facts`
    spec: Any = None
    point: Point = dataclasses.field(default_factory=dict)  # the sizes of the example
    example: CallMetadata | None = None  # its positional and its keyword arguments
    inputs_made_outside: bool = False  # whether calls under inference_mode are served with inputs made outside of it, too

    @property
    def certified(self) -> bool:
        return self.status == "certified"

    def __bool__(self) -> bool:
        return self.certified

    @property
    def stands(self) -> bool:
        """Whether all entries of this result are still valid."""
        whole = all(each.entry.valid and all(of.stands for of in each.behind or ()) for each in self.covering)
        return whole and all(each.entry.valid for each in self.probes)

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes of torch in which calls are served."""
        return tuple(dict.fromkeys(probe.thread.text() for probe in self.probes))

    @property
    def covering(self) -> list[Served]:
        """The entries that serve calls of the domain, in the order in which they were made."""
        return list(filter(covers, self.entries))

    @property
    def behind(self) -> tuple[Behind, ...]:
        """The resume functions after graph breaks, with the entries that serve their calls."""
        found: dict[Any, Behind] = {}
        for of in [of for each in self.covering for of in each.behind or ()]:
            found[of.code] = found[of.code].with_entries(of) if of.code in found else of
        return tuple(found.values())

    @property
    def not_covered(self) -> tuple[str, ...]:
        """What the certificate leaves out, in words: how calls go on in which something at a graph break raises."""
        return tuple(dict.fromkeys(note for each in self.covering for of in each.behind or () for note in of.notes))

    def regions(self) -> list[str]:
        """What each of them serves, as text over the names of the domain."""
        return [each.region.text(self.domain) for each in self.covering]

    def share(self) -> float:
        """The part of the domain that has an entry, from shapes chosen at random."""
        points = list(self.domain.samples(SHARE))
        covered = sum(any(each.region.check(point) for each in self.covering) for point in points)
        return 1.0 if self.certified else covered / max(1, len(points))

    def assumptions(self) -> list[Assumption]:
        """For each line of the program that divides the domain, the weakest relation of sizes under which it does not: as a
        clause of the spec, and as a `torch._check` to paste. The example satisfies all of them."""
        graphs = [each for each in self.covering if each.kind == "graph"]
        own = next((each for each in graphs if self.point and each.region.check(self.point)), None)
        return [] if own is None or len(graphs) < 2 else dividing_assumptions(self.domain, own.region, self.point)

    def entry_at(self, **sizes: int) -> Served | None:
        """The one that serves a shape, as `entry_at(B=4, S=128)`."""
        point = {each.symbol: sizes[each.name] for each in self.domain.variables}
        return next((each for each in self.covering if each.region.check(point)), None)

    def covering_at(self, point: Point) -> list[Served]:
        """The valid entries of `covering` that serve a shape."""
        return [each for each in self.covering if each.entry.valid and each.region.check(point)]

    def nearest(self, point: Point) -> Point | None:
        """A shape that has an entry, as near to `point` as is found."""
        return nearest(self.domain, [each.region for each in self.covering], point)

    def of_domain(self, domain: Domain) -> Coverage | None:
        """Itself, if it is about calls with these sizes at these places."""
        return self if self.domain.variables == domain.variables and self.domain.places == domain.places else None

    def __str__(self) -> str:
        text = f"{self.domain}: {self.status}"
        text += f" ({len(self.covering)} entries, {100 * self.share():.0f}% of the shapes, {self.seconds:.1f} s)"
        if self.modes:
            text += f", under {', '.join(self.modes)}"
        if self.inputs_made_outside:
            text += " (there also with inputs that were made outside of it)"
        if self.witness is not None:
            text += f"\n  at {point_text(self.witness)}"
        lines = [f"\n  {self.reason}"] if self.reason else []
        for number, each in enumerate(self.covering):
            kind = {"graph": "", "broken": "  (to a graph break)"}.get(each.kind, f"  ({each.kind})")
            lines.append(f"\n  {number}: {each.region.text(self.domain)}{kind}")
            lines += [f"\n       {line}" for line in _guard_lines(each.region, self.domain)]
        lines += [f"\n  {assumption}" for assumption in self.assumptions()]
        lines += [f"\n  {line}" for of in self.behind for line in of.lines()]
        lines += [f"\n  not covered: {note}" for note in self.not_covered]
        return text + "".join(lines)

    __repr__ = __str__


def _guard_lines(region: Region, domain: Domain) -> list[str]:
    places = [condition.where for condition in region.conditions_beyond(domain) if condition.where is not None]
    return [where.with_code() for where in dict.fromkeys(places)]
