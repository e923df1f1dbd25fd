"""`precompile` and `coverage`: entries for every shape of a domain, and a proof that none is missing, or a shape without an
entry."""

from __future__ import annotations

import copy
import dataclasses
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from shapes import solver
from shapes.domain import Domain, Point, point_text
from shapes.regions import RETRY_FACTOR, Region, SearchResult, find_uncovered, nearest
from shapes.solver.problem import RLIMIT
from tracer import _C, metrics
from tracer.errors import CompileTimeout, InternalTracerError, UserError
from tracer.runtime import upkeep
from tracer.runtime.shape_spec import ShapeSpec
from tracer.runtime.tracing_lock import TRACING
from tracer.serving.calls import Calls, TooLarge
from tracer.serving.regions import UNKNOWN, Served, failing_guard, served
from tracer.serving.size_one_strides import calls_with_any_strides_of_one
from tracer.serving.target import Target, target_of

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

    @property
    def certified(self) -> bool:
        return self.status == "certified"

    def __bool__(self) -> bool:
        return self.certified

    @property
    def stands(self) -> bool:
        """Whether all entries of this result are still valid."""
        return all(each.entry.valid for each in self.covering)

    @property
    def covering(self) -> list[Served]:
        """The entries that serve calls of the domain, in the order in which they were made."""
        return [each for each in self.entries if each.refused is None and each.kind != "broken"]

    def regions(self) -> list[str]:
        """What each of them serves, as text over the names of the domain."""
        return [each.region.text(self.domain) for each in self.covering]

    def share(self) -> float:
        """The part of the domain that has an entry, from shapes chosen at random."""
        points = list(self.domain.samples(SHARE))
        covered = sum(any(each.region.check(point) for each in self.covering) for point in points)
        return 1.0 if self.certified else covered / max(1, len(points))

    def entry_at(self, **sizes: int) -> Served | None:
        """The one that serves a shape, as `entry_at(B=4, S=128)`."""
        point = {each.symbol: sizes[each.name] for each in self.domain.variables}
        return next((each for each in self.covering if each.region.check(point)), None)

    def nearest(self, point: Point) -> Point | None:
        """A shape that has an entry, as near to `point` as is found."""
        return nearest(self.domain, [each.region for each in self.covering], point)

    def __str__(self) -> str:
        text = f"{self.domain}: {self.status}"
        text += f" ({len(self.covering)} entries, {100 * self.share():.0f}% of the shapes, {self.seconds:.1f} s)"
        if self.witness is not None:
            text += f"\n  at {point_text(self.witness)}"
        lines = [f"\n  {self.reason}"] if self.reason else []
        for number, each in enumerate(self.covering):
            kind = "" if each.kind == "graph" else f"  ({each.kind})"
            lines.append(f"\n  {number}: {each.region.text(self.domain)}{kind}")
            lines += [f"\n       {line}" for line in _guard_lines(each.region, self.domain)]
        return text + "".join(lines)

    __repr__ = __str__


def _guard_lines(region: Region, domain: Domain) -> list[str]:
    places = [condition.where for condition in region.conditions_beyond(domain) if condition.where is not None]
    return [where.with_code() for where in dict.fromkeys(places)]


def coverage(
    fn: Any,
    spec: Any = None,
    example: Any = (),
    *,
    kwargs: Mapping[str, Any] | None = None,
    strides_of_one: bool = False,
    rlimit: int = RLIMIT,
) -> Coverage:
    """Whether each shape of a domain has an entry now: a proof, or a shape without one. Nothing is traced.

    `spec` is by default what was declared when `fn` was compiled; `example` and `kwargs` are the arguments of one call. What
    is said holds for calls that differ from it in declared sizes only; with `strides_of_one` also for those in which a dim of
    size 1 has any stride, as in slices and transposed tensors. Raises UserError where these do not fit each other.

    ```python
    compiled = tracer.compile(lambda x: x.flatten() * 2, shapes="x: B, S; B in 1..8; S in 1..64")
    found = tracer.coverage(compiled, example=(torch.ones(3, 5),))
    assert found.status == "uncovered" and found.witness
    ```
    """
    search = _Search(fn, spec, example, kwargs, rlimit)
    return search.with_any_strides_of_one(_Search.check) if strides_of_one else search.check()


def precompile(
    fn: Any,
    spec: Any = None,
    example: Any = (),
    *,
    kwargs: Mapping[str, Any] | None = None,
    max_entries: int = 64,
    max_seconds: float | None = None,
    progress: Callable[[Coverage], None] | bool = False,
    strides_of_one: bool = False,
    rlimit: int = RLIMIT,
) -> Coverage:
    """Traces until every shape of a domain has an entry; see `coverage` for the arguments.

    Ends with a proof ("certified"), or, when `max_entries` or `max_seconds` are spent, or something cannot be traced or proved,
    with what holds instead. `progress` is called with the coverage before each trace; True prints it to stderr. What `spec`
    says is from now on what is declared of `fn`, and its entries are pinned.
    `max_seconds` are seconds. Raises UserError where spec and example do not fit.

    ```python
    compiled = tracer.compile(lambda x: x.flatten() * 2, shapes="x: B, S; B in 1..8; S in 1..64")
    certificate = tracer.precompile(compiled, example=(torch.ones(3, 5),))
    assert certificate.certified, certificate
    ```
    """
    search = _Search(fn, spec, example, kwargs, rlimit)
    report = _print if progress is True else progress or None
    with search.declared():
        if not strides_of_one:
            return search.fill(max_entries, max_seconds, report)
        filled = search.with_any_strides_of_one(lambda part: part.fill(max_entries, max_seconds, report))
        # Once more, since entries may have been merged in between.
        return search.with_any_strides_of_one(_Search.check) if filled.certified else filled


def _print(now: Coverage) -> None:
    shown = "" if now.witness is None else f", next {point_text(now.witness)}"
    print(f"precompile: {len(now.covering)} entries, {100 * now.share():.0f}% of the shapes{shown}", file=sys.stderr)


class _Search:
    """Searches a domain for shapes that no entry of a function serves."""

    def __init__(self, fn: Any, spec: Any, example: Any, kwargs: Mapping[str, Any] | None, rlimit: int) -> None:
        self.started = time.perf_counter()
        self.target: Target = target_of(fn)
        spec = self.target.state.shapes if spec is None else ShapeSpec.of(spec)
        if spec is None:
            raise UserError("no shapes were declared", hint="give a spec, such as 'x: B, S; B in 1..256'.")
        self.spec: ShapeSpec = spec
        args, keywords = _arguments(example, kwargs)
        self.calls = Calls(spec, self.target.function, self.target.slots(args, keywords))
        self.rlimit = rlimit
        self._served: dict[int, Served] = {}

    @property
    def domain(self) -> Domain:
        return self.calls.domain

    def with_any_strides_of_one(self, check: Callable[[_Search], Coverage]) -> Coverage:
        """The result of `check` for these calls, and for calls with other strides at dims of size 1: the first that is not
        certified, if any."""
        found = check(self)
        for calls in calls_with_any_strides_of_one(self.calls):
            part = copy.copy(self)
            part.calls, part._served = calls, {}
            if found.certified and not (here := check(part)).certified:
                found = self.result(here.status, here.witness, here.reason)
        return self.result("certified") if found.certified else found

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
        regions = [each.region for each in self.entries() if each.refused is None and each.kind != "broken"]
        return find_uncovered(self.domain, regions, rlimit=self.rlimit)

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
        for each in self.entries() if self.calls.include_example else ():
            if each.refused is None and each.kind != "broken" and each.region.check(self.calls.example):
                failures.append(failing_guard(each.entry, self.calls, None))
        if not failures or None in failures:
            return None
        return _UNLIKE_EXAMPLE.format(text=failures[0])

    def verify(self) -> None:
        """Compares a proof with the check functions, at sampled shapes. Raises InternalTracerError if they contradict it."""
        covering = [each for each in self.entries() if each.refused is None and each.kind != "broken"]
        for point in filter(self.calls.is_small, self.domain.samples(CHECKED)):
            claimed = [each for each in covering if each.region.check(point)]
            refused = [failing_guard(each.entry, self.calls, point) for each in claimed]
            if not claimed or any(refused):
                text = refused or "none claims it"
                raise InternalTracerError(f"{point_text(point)} was proved to have an entry, but the check functions say: {text}")

    def result(self, status: str, witness: Point | None = None, reason: str = "") -> Coverage:
        seconds = time.perf_counter() - self.started
        found = Coverage(self.domain, status, tuple(self.entries()), witness, reason, seconds)
        self.target.state.keep_coverage(found)
        return found

    # -- filling -------------------------------------------------------------------------------------------------

    def declared(self) -> AbstractContextManager[None]:
        """Within, and from then on unless the block raises, the function is declared to have these shapes."""
        return self.target.state.declaring(self.spec)

    def fill(self, max_entries: int, max_seconds: float | None, report: Callable[[Coverage], None] | None) -> Coverage:
        ends = float("inf") if max_seconds is None else self.started + max_seconds
        with solver.until(ends):
            found = self.filled(max_entries, max_seconds, report)
        late = found.status == "unknown" and time.perf_counter() > ends
        return self.result("budget", found.witness, f"{max_seconds} seconds are spent") if late else found

    def filled(self, max_entries: int, max_seconds: float | None, report: Callable[[Coverage], None] | None) -> Coverage:
        made = 0
        while True:
            if max_seconds is not None and time.perf_counter() - self.started > max_seconds:
                return self.result("budget", reason=f"{max_seconds} seconds are spent")
            now = self.check()
            if report is not None:
                report(now)
            if now.status == "certified":
                return self.after_compaction(now)
            if now.status != "uncovered" or now.witness is None:
                return now
            if not upkeep.has_room(self.target.state, self.target.entries()) and self.target.state.capacity is not None:
                return self.result("budget", now.witness, f"the capacity of {self.target.state.capacity} entries is used up")
            if made >= max_entries:
                return self.result("budget", now.witness, f"{max_entries} entries were made, and that shape has none")
            problem = self.trace(now.witness)
            if problem is not None:
                return problem
            made += 1

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
  example like that, and have calls like that; with strides_of_one=True the strides of dims of size 1 may be whatever they are."""


def _arguments(example: Any, kwargs: Mapping[str, Any] | None) -> tuple[Sequence[Any], Mapping[str, Any]]:
    if isinstance(example, torch.Tensor):
        example = (example,)
    if isinstance(example, Mapping):
        return (), {**example, **(kwargs or {})}
    if not isinstance(example, Sequence):
        raise UserError(f"example={example!r} is no tuple of arguments", hint="write example=(x,) or kwargs={'x': x}.")
    return tuple(example), kwargs or {}
