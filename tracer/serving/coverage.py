"""`precompile` and `coverage`: entries for every shape of a domain, and a proof that none is missing, or a shape without an
entry."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from shapes import solver
from shapes.domain import Domain, Point, point_text
from shapes.regions import RETRY_FACTOR, Region, SearchResult, find_uncovered, nearest
from shapes.solver.problem import RLIMIT
from tracer import _C, metrics
from tracer.errors import CompileTimeout, InternalTracerError, UserError
from tracer.runtime import events, upkeep
from tracer.runtime.shape_spec import ShapeSpec
from tracer.runtime.spec_choice import SpecChoice, choice_of
from tracer.runtime.thread_state import MODES
from tracer.runtime.tracing_lock import TRACING
from tracer.serving.assumptions import Assumption, dividing_assumptions
from tracer.serving.call_facts import Facts, facts_of, same_variant
from tracer.serving.calls import Calls, TooLarge
from tracer.serving.readiness import Probe, as_made_here, probes_of
from tracer.serving.regions import UNKNOWN, Served, failing_guard, served
from tracer.serving.target import Target, target_of
from tracer.serving.variants import Certificate, Variant, known_variants, variants_of, with_variant

CHECKED = 256  # number of sampled shapes for which a proof is compared with the check functions
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
    example: Point = dataclasses.field(default_factory=dict)

    @property
    def certified(self) -> bool:
        return self.status == "certified"

    def __bool__(self) -> bool:
        return self.certified

    @property
    def stands(self) -> bool:
        """Whether all entries of this result are still valid."""
        return all(each.entry.valid for each in self.covering) and all(each.entry.valid for each in self.probes)

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes of torch in which calls are served."""
        return tuple(dict.fromkeys(probe.thread.text() for probe in self.probes))

    @property
    def covering(self) -> list[Served]:
        """The entries that serve calls of the domain, in the order in which they were made."""
        return list(filter(_covers, self.entries))

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
        own = next((each for each in graphs if self.example and each.region.check(self.example)), None)
        return [] if own is None or len(graphs) < 2 else dividing_assumptions(self.domain, own.region, self.example)

    def entry_at(self, **sizes: int) -> Served | None:
        """The one that serves a shape, as `entry_at(B=4, S=128)`."""
        point = {each.symbol: sizes[each.name] for each in self.domain.variables}
        return next((each for each in self.covering if each.region.check(point)), None)

    def covering_at(self, point: Point) -> list[Served]:
        """Those of them that serve a shape."""
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
        if self.witness is not None:
            text += f"\n  at {point_text(self.witness)}"
        lines = [f"\n  {self.reason}"] if self.reason else []
        for number, each in enumerate(self.covering):
            kind = "" if each.kind == "graph" else f"  ({each.kind})"
            lines.append(f"\n  {number}: {each.region.text(self.domain)}{kind}")
            lines += [f"\n       {line}" for line in _guard_lines(each.region, self.domain)]
        lines += [f"\n  {assumption}" for assumption in self.assumptions()]
        return text + "".join(lines)

    __repr__ = __str__


def _covers(each: Served) -> bool:
    return each.refused is None and each.kind != "broken"


def _guard_lines(region: Region, domain: Domain) -> list[str]:
    places = [condition.where for condition in region.conditions_beyond(domain) if condition.where is not None]
    return [where.with_code() for where in dict.fromkeys(places)]


def coverage(
    fn: Any,
    spec: Any = None,
    example: Any = (),
    *,
    kwargs: Mapping[str, Any] | None = None,
    rlimit: int = RLIMIT,
) -> Coverage | Certificate:
    """Whether each shape of a domain has an entry now: a proof, or a shape without one. Nothing is traced.

    `spec` is by default what was declared when `fn` was compiled; `example` and `kwargs` are the arguments of one call. What
    is said holds for calls that differ from it in declared sizes, and strides, only. For calls of several kinds give a list in
    place of `spec`: of `tracer.Variant`, tuples of arguments or dicts of keywords; the result is a `Certificate` over all of
    them. Raises UserError where spec and example do not fit each other.

    ```python
    compiled = tracer.compile(lambda x: x.flatten() * 2, shapes="x: B, S; B in 1..8; S in 1..64")
    found = tracer.coverage(compiled, example=(torch.ones(3, 5),))
    assert found.status == "uncovered" and found.witness
    ```
    """
    searches = [_searches(fn, variant, rlimit) for variant in _variants(spec, example, kwargs)]
    found = [_in_each_mode(of_modes, _Search.check) for of_modes in searches]
    return _told(fn, Certificate(tuple(found)) if isinstance(spec, (list, tuple)) else found[0])


def precompile(
    fn: Any,
    spec: Any = None,
    example: Any = (),
    *,
    kwargs: Mapping[str, Any] | None = None,
    max_entries: int = 64,
    max_seconds: float | None = None,
    progress: Callable[[Coverage], None] | bool = False,
    rlimit: int = RLIMIT,
) -> Coverage | Certificate:
    """Traces until every shape of a domain has an entry; see `coverage` for the arguments.

    Ends with a proof ("certified"), or, when `max_entries` or `max_seconds` are spent, or something cannot be traced or proved,
    with what holds instead. `progress` is called with the coverage before each trace; True prints it to stderr. What `spec`
    says is from now on what is declared of `fn`, and its entries are pinned. A later `precompile` of calls of another kind
    (other dtypes or modes, an argument that was None) adds a variant; of the same kind, it takes the place of the first.
    `max_entries` is of each variant, `max_seconds` are seconds for all. Raises UserError where spec and example do not fit.

    ```python
    compiled = tracer.compile(lambda x: x.flatten() * 2, shapes="x: B, S; B in 1..8; S in 1..64")
    certificate = tracer.precompile(compiled, example=(torch.ones(3, 5),))
    assert certificate.certified, certificate
    ```
    """
    searches = [_searches(fn, variant, rlimit, adds=True) for variant in _variants(spec, example, kwargs)]
    budget = _Budget(max_entries, max_seconds, _print if progress is True else progress or None)

    def fill(search: _Search) -> Coverage:
        with search.declared():
            return search.fill(budget)

    found = [_in_each_mode(of_modes, fill) for of_modes in searches]
    # What was traced for one variant may have merged entries of those before it.
    found = [was if was.stands else _in_each_mode(of_modes, _Search.check) for of_modes, was in zip(searches, found)]
    return _told(fn, Certificate(tuple(found)) if isinstance(spec, (list, tuple)) else found[0])


def _told(fn: Any, found: Coverage | Certificate) -> Coverage | Certificate:
    """The same; who listens is told what is now known of all variants."""
    target = target_of(fn)
    kept = target.state.coverage or found
    about = {"code": target.function.__code__, "coverage": kept}
    events.tell_of_region(target.state, "certificate", lambda: str(kept), reason=kept.status, **about)
    return found


def _searches(fn: Any, variant: Variant, rlimit: int, adds: bool = False) -> dict[str, _Search]:
    """Mode -> the search in it, with the example as it would be made there, for each mode that the spec names; else one."""
    named = target_of(fn).state.shapes if variant.spec is None else ShapeSpec.of(variant.spec)
    found = {}
    modes = () if named is None else named.modes
    for mode in modes:
        with MODES[mode]():
            args, keywords = variant.arguments()
            example = dataclasses.replace(variant, example=as_made_here(args), kwargs=as_made_here(dict(keywords)))
            found[mode] = _Search(fn, example, rlimit, adds)
            found[mode].facts["modes"] = {"modes": list(modes)}  # one variant, in all of them
    return found or {"": _Search(fn, variant, rlimit, adds)}


def _in_each_mode(searches: Mapping[str, _Search], do: Callable[[_Search], Coverage]) -> Coverage:
    """The first result that is not certified, if any, else one for all modes."""
    if "" in searches:
        return do(searches[""])
    found: list[Coverage] = []
    for mode, search in searches.items():
        with MODES[mode]():
            found.append(do(search))
        if not found[-1].certified:
            return search.kept(dataclasses.replace(found[-1], reason=f"under {mode}: {found[-1].reason}"))
    probes = tuple([probe for part in found for probe in part.probes])
    return search.kept(dataclasses.replace(found[0], probes=probes, seconds=sum(part.seconds for part in found)))


def _variants(spec: Any, example: Any, kwargs: Mapping[str, Any] | None) -> list[Variant]:
    if not isinstance(spec, (list, tuple)):
        return [Variant(example, kwargs, spec)]
    if example != () or kwargs:
        raise UserError("a list of variants was given, and an example beside it", hint="write precompile(fn, [(x,), (x, mask)]).")
    return variants_of(spec)


@dataclasses.dataclass
class _Budget:
    """What all traces of one `precompile` may use together."""

    entries: int
    seconds: float | None
    report: Callable[[Coverage], None] | None
    started: float = dataclasses.field(default_factory=time.perf_counter)

    @property
    def ends(self) -> float:
        return float("inf") if self.seconds is None else self.started + self.seconds

    @property
    def is_late(self) -> bool:
        return time.perf_counter() > self.ends


def _print(now: Coverage) -> None:
    shown = "" if now.witness is None else f", next {point_text(now.witness)}"
    print(f"precompile: {len(now.covering)} entries, {100 * now.share():.0f}% of the shapes{shown}", file=sys.stderr)


class _Search:
    """Searches a domain for shapes that no entry of a function serves."""

    def __init__(self, fn: Any, variant: Variant, rlimit: int, adds: bool = False) -> None:
        """`adds`: whether the result is kept whatever it is, even if other variants are known already."""
        self.started = time.perf_counter()
        self.target: Target = target_of(fn)
        self.name, self.adds, self.rlimit = variant.name, adds, rlimit
        function, slots = self.target.function, self.target.slots(*variant.arguments())
        spec = self.target.state.shapes if variant.spec is None else ShapeSpec.of(variant.spec)
        if spec is None:
            raise UserError("no shapes were declared", hint="give a spec, such as 'x: B, S; B in 1..256'.")
        self.spec: ShapeSpec = spec.chosen(function, slots)[0] if isinstance(spec, SpecChoice) else spec
        self.calls = Calls(self.spec, function, slots)
        self.facts = facts_of(self.calls)
        self._served: dict[int, Served] = {}

    @property
    def domain(self) -> Domain:
        return self.calls.domain

    # -- checking ------------------------------------------------------------------------------------------------

    def entries(self) -> list[Served]:
        """What each live entry serves, the oldest first."""
        live = {id(entry): entry for entry in self.target.entries()}
        self._served = {key: known for key, known in self._served.items() if key in live and known.entry is live[key]}
        for key, entry in reversed(list(live.items())):  # the last made stands first
            if key not in self._served:
                self._served[key] = served(entry, self.calls)
        return list(self._served.values())

    def find_uncovered(self) -> SearchResult:
        """A shape that no entry serves. An entry with a graph break serves none: what follows the break is not known."""
        return find_uncovered(self.domain, [each.region for each in self.covering()], rlimit=self.rlimit)

    def covering(self) -> list[Served]:
        """The entries that serve calls of the domain."""
        return [each for each in self.entries() if each.refused is None and each.kind != "broken"]

    def check(self) -> Coverage:
        found = self.find_uncovered()
        if found.status == "unsat":
            self.verify()
            unlike = self.example_mismatch()
            return self.result("certified") if unlike is None else self.result("refused", self.calls.example, unlike)
        if found.status == "sat" and found.witness is not None:
            broken = [each for each in self.entries() if each.refused is None and each.kind == "broken"]
            at_break = next((each for each in broken if each.region.check(found.witness)), None)
            if at_break is not None:
                return self.result("broken", found.witness, _explain_break(at_break))
            return self.result("uncovered", found.witness)
        steps = RETRY_FACTOR * self.rlimit
        return self.result("unknown", reason=f"the solver cannot tell, with {steps} steps, whether a shape is left out")

    def example_mismatch(self) -> str | None:
        """The reason why no entry serves the example itself, though one serves its shape; None if the example is served. Other
        calls are like hypothetical ones, with new tensors, and unlike the example then."""
        failures = []
        for each in self.entries():
            if each.refused is None and each.kind != "broken" and each.region.check(self.calls.example):
                failures.append(failing_guard(each.entry, self.calls, None))
        if not failures or None in failures:
            return None
        return _UNLIKE_EXAMPLE.format(text=failures[0])

    def verify(self) -> None:
        """Compares a proof with the check functions, at sampled shapes. Raises InternalTracerError if they contradict it."""
        covering = self.covering()
        for point in filter(self.calls.is_small, self.domain.samples(CHECKED)):
            claimed = [each for each in covering if each.region.check(point)]
            refused = [failing_guard(each.entry, self.calls, point) for each in claimed]
            if not claimed or any(refused):
                text = refused or "none claims it"
                raise InternalTracerError(f"{point_text(point)} was proved to have an entry, but the check functions say: {text}")

    def result(self, status: str, witness: Point | None = None, reason: str = "") -> Coverage:
        seconds = time.perf_counter() - self.started
        entries = tuple(self.entries())
        probes = probes_of([each for each in entries if _covers(each)], self.calls) if status == "certified" else ()
        return self.kept(
            Coverage(
                self.domain,
                status,
                entries,
                witness,
                reason,
                seconds,
                probes,
                self.name,
                self.facts,
                self.spec,
                self.calls.example,
            )
        )

    def kept(self, found: Coverage) -> Coverage:
        """Keeps what was found of this variant."""
        state = self.target.state
        state.keep_coverage(with_variant(state.coverage, found, self.adds or found.certified))
        return found

    # -- filling -------------------------------------------------------------------------------------------------

    def declared(self) -> AbstractContextManager[None]:
        """Within, and from then on unless the block raises, the function is declared to have these shapes, beside those of the
        other variants."""
        state = self.target.state
        others = [each.spec for each in known_variants(state.coverage) if not same_variant(each.facts, self.facts)]
        return state.declaring(choice_of([*others, self.spec], self.spec))

    def fill(self, budget: _Budget) -> Coverage:
        with solver.until(budget.ends):
            found = self.filled(budget)
        late = found.status == "unknown" and budget.is_late
        return self.result("budget", found.witness, f"{budget.seconds} seconds are spent") if late else found

    def filled(self, budget: _Budget) -> Coverage:
        made = 0
        while True:
            if budget.is_late:
                return self.result("budget", reason=f"{budget.seconds} seconds are spent")
            now = self.check()
            if budget.report is not None:
                budget.report(now)
            if now.status == "certified":
                return self.after_compaction(now)
            if now.status != "uncovered" or now.witness is None:
                return now
            if not upkeep.has_room(self.target.state, self.target.entries()) and self.target.state.capacity is not None:
                return self.result("budget", now.witness, f"the capacity of {self.target.state.capacity} entries is used up")
            if made >= budget.entries:
                return self.result("budget", now.witness, f"{budget.entries} entries were made, and that shape has none")
            problem = self.trace(self.toward_example(now.witness))
            if problem is not None:
                return problem
            made += 1

    def toward_example(self, point: Point) -> Point:
        """A shape without an entry that is like the example where it can be, and else has no size 0 or 1. The entry that is made
        for such a shape often serves those of these sizes, too, and one made for them nothing else."""
        covered = [each.region for each in self.covering()]
        for each in self.domain.variables:
            usual = (self.calls.example[each.symbol], next((value for value in each.values() if value >= 2), 0))
            for value in dict.fromkeys(value for value in usual if value >= 2):
                moved = {**point, each.symbol: value}
                if self.domain.holds(moved) and not any(region.check(moved) for region in covered):
                    point = moved
                    break
        return point

    def after_compaction(self, now: Coverage) -> Coverage:
        """The result after entries with the same graph were merged, proved anew."""
        for each in now.covering:
            each.entry.guarded_code.pinned = True
        return self.check() if upkeep.compact(self.target.state) else now

    def trace(self, point: Point) -> Coverage | None:
        """Makes the entry for a shape. Returns None, or the final result if the entry does not serve the shape."""
        state, function = self.target.state, self.target.function
        breaks: list[Any] = []
        try:
            with state.reporting_breaks_to(breaks.append):
                entry = state.compile_entry_ahead(function, self.calls.at(point))
        except TooLarge as error:
            return self.result("refused", point, error.message)
        except CompileTimeout as error:
            return self.result("budget", point, error.message)
        metrics.counters["serving"]["precompiled"] += 1
        reason = str(breaks[-1]) if breaks else ""
        if entry is _C.SKIP:
            return self.result("refused", point, reason or "the frame has nothing to trace")
        with TRACING:  # so that no other thread evicts the entry before it was looked at
            entry.guarded_code.pinned = True
            state.region.install(function.__code__, function.__globals__, entry)
            upkeep.retire_and_evict(state, function, entry)
            made = next((each for each in self.entries() if each.entry is entry), None)
        if made is None:  # another thread has reset the region since
            return None
        if made.kind == "broken":
            return self.result("broken", point, _explain_break(made))
        if made.refused == UNKNOWN:
            return self.result("unknown", point, f"{made.refused}: {made.entry.guarded_code.guards_text.splitlines()[-1]}")
        if made.refused is not None and self.calls.copies_objects:
            return self.result("refused", point, f"not every call is like one with copies of the objects: {made.refused}")
        if made.refused is not None or not made.region.check(point):
            raise InternalTracerError(
                f"the entry traced for {point_text(point)} does not serve it: {made.refused or made.region.text(self.domain)}"
            )
        return None


def _explain_break(entry: Served) -> str:
    """Why the graph breaks, what is therefore not known, and what the user can do."""
    guarded = entry.entry.guarded_code
    contents = [cell.cell_contents for cell in entry.entry.extras]
    behind = [each.function.__qualname__ for each in contents if isinstance(each, _C.Dispatcher)]
    text = f" ({', '.join(behind)})" if behind else ""
    return f"{guarded.reason}\n  {_BEHIND_A_BREAK.format(text=text)}"


_BEHIND_A_BREAK = """\
What runs behind the break{text} is compiled when it is first reached, for what it is then given: which that is shows
  only in a call. So nothing is claimed of it, and shapes that come here are not covered. To have them certified, take what breaks
  out of the function: write what is before and what is behind it as functions of their own, each compiled and certified. Else
  send each shape once before the first request, and seal with on_miss="eager" or "background": "error" would end a call half
  way."""


_UNLIKE_EXAMPLE = """\
The example itself finds no entry, though each shape has one: {text}
  Entries are made for tensors of their own: new ones, that share no memory, lie at the beginning of it and have no gaps. Give an
  example like that, and have calls like that; what is declared as strided ("x: B, S strided") may have gaps."""
