"""`precompile` and `coverage`: entries for every shape of a domain, and a proof that none is missing, or a shape without an
entry."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

from shapes import solver
from shapes.domain import Domain, Point, point_text
from shapes.regions import RETRY_FACTOR, SearchResult, find_uncovered
from shapes.solver.problem import RLIMIT
from tracer import _C, metrics
from tracer.errors import CompileTimeout, InternalTracerError, UserError
from tracer.runtime import events, upkeep
from tracer.runtime.call_metadata import CallMetadata
from tracer.runtime.shape_spec import ShapeSpec
from tracer.runtime.spec_choice import SpecChoice, choice_of
from tracer.runtime.thread_state import MODES
from tracer.runtime.tracing_lock import TRACING
from tracer.serving.after_breaks import Follower, Make, NotFollowed, OutOfBudget
from tracer.serving.budget import Budget, print_progress
from tracer.serving.call_facts import facts_of, same_variant
from tracer.serving.calls import Calls, TooLarge
from tracer.serving.coverage_result import Coverage
from tracer.serving.readiness import as_made_here, probes_of
from tracer.serving.regions import UNKNOWN, Served, covers, failing_guard, like_example, served
from tracer.serving.target import Target, target_of
from tracer.serving.variants import Certificate, Variant, known_variants, variants_of, with_variant

CHECKED = 256  # number of sampled shapes for which a proof is compared with the check functions


def coverage(
    fn: Any,
    spec: Any = None,
    example: Any = (),
    *,
    kwargs: Mapping[str, Any] | None = None,
    rlimit: int = RLIMIT,
) -> Coverage | Certificate:
    """Whether each shape of a domain has an entry now: a proof, or a shape without one. Nothing is traced.

    `spec` declares the shapes; by default it is what was declared when `fn` was compiled. `example` and `kwargs` are the
    arguments of one call. The answer holds for calls that differ from this one only in declared sizes and strides. For calls of
    several kinds pass a list as `spec`, of `tracer.Variant`s, tuples of arguments or dicts of keywords; the result is then a
    `Certificate` over all of them. Without spec and example the question is about the calls of the last `coverage`, `precompile`
    or `tracer.load`. Raises UserError if spec and example do not fit each other.

    ```python
    compiled = tracer.compile(lambda x: x.flatten() * 2, shapes="x: B, S; B in 1..8; S in 1..64")
    found = tracer.coverage(compiled, example=(torch.ones(3, 5),))
    assert found.status == "uncovered" and found.witness
    ```
    """
    known = _known_again(fn) if spec is None and not kwargs and type(example) is tuple and not example else []
    searches = [_searches(fn, variant, rlimit) for variant in known or _variants(spec, example, kwargs)]
    found = [_in_each_mode(of_modes, _Search.check) for of_modes in searches]
    return _told(fn, Certificate(tuple(found)) if isinstance(spec, (list, tuple)) or len(known) > 1 else found[0])


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

    The result says "certified" if that is proved. If `max_entries` (for each variant) or `max_seconds` (for all of them) is
    reached, or something cannot be traced or proved, it says what holds instead. `progress` is called with the coverage before
    each trace; True prints it to stderr. From now on the shapes of `spec` are those declared for `fn`, and the entries are
    pinned. A later `precompile` of calls of another kind (other dtypes or modes, an argument that was None) adds a variant; of
    the same kind, it replaces the earlier one. Raises UserError if spec and example do not fit each other.

    ```python
    compiled = tracer.compile(lambda x: x.flatten() * 2, shapes="x: B, S; B in 1..8; S in 1..64")
    certificate = tracer.precompile(compiled, example=(torch.ones(3, 5),))
    assert certificate.certified, certificate
    ```
    """
    searches = [_searches(fn, variant, rlimit, adds=True) for variant in _variants(spec, example, kwargs)]
    budget = Budget(max_entries, max_seconds, print_progress if progress is True else progress or None)

    def fill(search: _Search) -> Coverage:
        with search.declared():
            return search.fill(budget)

    found = [_in_each_mode(of_modes, fill) for of_modes in searches]
    # What was traced for one variant may have merged entries of those before it.
    found = [was if was.stands else _in_each_mode(of_modes, _Search.check) for of_modes, was in zip(searches, found)]
    return _told(fn, Certificate(tuple(found)) if isinstance(spec, (list, tuple)) else found[0])


def _told(fn: Any, found: Coverage | Certificate) -> Coverage | Certificate:
    """Tells listeners of events what is now known of all variants. Returns `found`."""
    target = target_of(fn)
    kept = target.state.coverage or found
    about = {"code": target.function.__code__, "coverage": kept}
    events.tell_of_region(target.state, "certificate", lambda: str(kept), reason=kept.status, **about)
    return found


def _searches(fn: Any, variant: Variant, rlimit: int, adds: bool = False) -> dict[str, _Search]:
    """Mode -> the search in it, with the example as it would be made there, for each mode that the spec names; else one. Under
    inference mode there is one for inputs that were made outside of it, too."""
    named = target_of(fn).state.shapes if variant.spec is None else ShapeSpec.of(variant.spec)
    found = {}
    modes = () if named is None else named.modes
    for mode in (*modes, *([_OUTSIDE] if "inference_mode" in modes else [])):
        with _entered(mode):
            args, keywords = variant.arguments()
            made = None if mode != _OUTSIDE else False
            example = dataclasses.replace(variant, example=as_made_here(args, made), kwargs=as_made_here(dict(keywords), made))
            found[mode] = _Search(fn, example, rlimit, adds)
            found[mode].facts["modes"] = {"modes": list(modes)}  # one variant, in all of them
    return found or {"": _Search(fn, variant, rlimit, adds)}


_OUTSIDE = "inference_mode, with inputs that were made outside of it"


def _entered(mode: str) -> AbstractContextManager[Any]:
    return MODES["inference_mode" if mode == _OUTSIDE else mode]()


def _in_each_mode(searches: Mapping[str, _Search], do: Callable[[_Search], Coverage]) -> Coverage:
    """The first result that is not certified, if any, else one for all modes. Inputs that were made outside of inference mode may
    be left out of it."""
    if "" in searches:
        return do(searches[""])
    found: list[Coverage] = []
    for mode, search in searches.items():
        with _entered(mode):
            found.append(do(search))
        if not found[-1].certified and mode == _OUTSIDE:
            found.pop()
        elif not found[-1].certified:
            return search.kept(dataclasses.replace(found[-1], reason=f"under {mode}: {found[-1].reason}"))
    probes = tuple([probe for part in found for probe in part.probes])
    outside = _OUTSIDE in searches and len(found) == len(searches)
    seconds = sum(part.seconds for part in found)
    return search.kept(dataclasses.replace(found[0], probes=probes, seconds=seconds, inputs_made_outside=outside))


def _known_again(fn: Any) -> list[Variant]:
    """The variants that are known of a function, with examples that are made of their metadata."""
    state = target_of(fn).state
    known = [(each.name, each.spec, each.example) for each in known_variants(state.coverage)] or state.loaded_variants
    found = []
    for name, spec, example in known:
        if example is None:
            return []
        args, kwargs = example.slots()
        if not example.is_whole((args, kwargs)):
            return []
        found.append(Variant(args, kwargs, spec, name))
    return found


def _variants(spec: Any, example: Any, kwargs: Mapping[str, Any] | None) -> list[Variant]:
    if not isinstance(spec, (list, tuple)):
        return [Variant(example, kwargs, spec)]
    if example != () or kwargs:
        raise UserError("a list of variants was given, and an example beside it", hint="write precompile(fn, [(x,), (x, mask)]).")
    return variants_of(spec)


class _Search:
    """Searches a domain for shapes that no entry of a function serves."""

    def __init__(self, fn: Any, variant: Variant, rlimit: int, adds: bool = False) -> None:
        """`adds`: whether the result is kept whatever it is, even if other variants are known already."""
        self.started = time.perf_counter()
        self.target: Target = target_of(fn)
        self.name, self.adds, self.rlimit = variant.name, adds, rlimit
        self.arguments = CallMetadata(variant.arguments())
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
        """A shape that no entry serves. What follows the graph break of an entry is not asked here."""
        return find_uncovered(self.domain, [each.region for each in self.candidates()], rlimit=self.rlimit)

    def candidates(self) -> list[Served]:
        """The entries that serve calls of the domain, some perhaps to a graph break only."""
        return [each for each in self.entries() if each.refused is None]

    def follow(self, make: Make | None) -> Coverage | None:
        """Follows the calls through the graph breaks of entries. Returns the final result if what is after one is not covered.
        `make`: see `Follower`."""
        follower = Follower(self.target.state, self.rlimit, make)
        while True:
            before = follower.traced
            follower.begin()
            for each in self.entries():
                if each.kind == "broken" and each.refused in (None, UNKNOWN):
                    try:
                        behind = follower.behind(each, self.calls)
                    except NotFollowed as error:
                        self._served[id(each.entry)] = dataclasses.replace(each, behind=None)
                        status = "budget" if isinstance(error, OutOfBudget) else "broken"
                        point = None if each.witness is None else dict(each.witness)
                        return self.result(status, point, _explain_break(each, str(error)))
                    self._served[id(each.entry)] = dataclasses.replace(each, behind=behind)
            if follower.traced == before:
                return None

    def check(self, make: Make | None = None) -> Coverage:
        """`make`: how what is after a graph break is traced; None if nothing is."""
        found = self.find_uncovered()
        if found.status == "unsat":
            gap = self.follow(make)
            if gap is not None:
                return gap
            self.verify()
            unlike = self.example_mismatch()
            return self.result("certified") if unlike is None else self.result("refused", self.calls.example, unlike)
        if found.status == "sat" and found.witness is not None:
            return self.result("uncovered", found.witness)
        steps = RETRY_FACTOR * self.rlimit
        return self.result("unknown", reason=f"the solver cannot tell, with {steps} steps, whether some shape has no entry")

    def example_mismatch(self) -> str | None:
        """The reason why no entry serves the example itself, though one serves its shape; None if the example is served. Other
        calls are like hypothetical ones, with new tensors, and unlike the example then."""
        failures = []
        for each in self.entries():
            if each.refused is None and each.region.check(self.calls.example):
                failures.append(failing_guard(each.entry, self.calls, None))
        if not failures or None in failures:
            return None
        return _UNLIKE_EXAMPLE.format(text=failures[0])

    def verify(self) -> None:
        """Compares a proof with the check functions, at sampled shapes. Raises InternalTracerError if they contradict it."""
        covering = self.candidates()
        for point in filter(self.calls.is_small, self.domain.samples(CHECKED)):
            claimed = [each for each in covering if each.region.check(point)]
            refused = [failing_guard(each.entry, self.calls, point) for each in claimed]
            if not claimed or any(refused):
                text = refused or "none claims it"
                raise InternalTracerError(f"{point_text(point)} was proved to have an entry, but the check functions say: {text}")

    def result(self, status: str, witness: Point | None = None, reason: str = "") -> Coverage:
        seconds = time.perf_counter() - self.started
        entries = tuple(self.entries())
        covering = [each for each in entries if covers(each)] if status == "certified" else []
        probes = (
            *probes_of(covering, self.calls),
            *(p for each in covering for behind in each.behind or () for p in behind.probes),
        )
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
                self.arguments,
            )
        )

    def kept(self, found: Coverage) -> Coverage:
        """Keeps what was found of this variant in the state of the function. Returns `found`."""
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

    def fill(self, budget: Budget) -> Coverage:
        self.started = time.perf_counter()  # other variants were filled since this was made
        with solver.until(budget.ends):
            found = self.filled(budget)
        late = found.status == "unknown" and budget.is_late
        return self.result("budget", found.witness, f"max_seconds={budget.seconds} was reached") if late else found

    def filled(self, budget: Budget) -> Coverage:
        made = 0

        def make(trace: Callable[[], Any]) -> Any:
            nonlocal made
            if budget.is_late or made >= budget.entries:
                raise OutOfBudget("max_entries or max_seconds was reached")
            made += 1
            return trace()

        self.drop_entries_not_described()
        while True:
            if budget.is_late:
                return self.result("budget", reason=f"max_seconds={budget.seconds} was reached")
            now = self.check(make)
            if budget.report is not None:
                budget.report(now)
            if now.status == "certified":
                return self.after_compaction(now)
            if now.status != "uncovered" or now.witness is None:
                return now
            if not upkeep.has_room(self.target.state, self.target.entries()) and self.target.state.capacity is not None:
                return self.result("budget", now.witness, f"the capacity of {self.target.state.capacity} entries is used up")
            if made >= budget.entries:
                return self.result(
                    "budget", now.witness, f"max_entries={budget.entries} was reached, and that shape has no entry"
                )
            problem = self.trace(self.like_example(now.witness))
            if problem is not None:
                return problem
            made += 1

    def like_example(self, point: Point) -> Point:
        return like_example(self.domain, self.calls.example, [each.region for each in self.candidates()], point)

    def after_compaction(self, now: Coverage) -> Coverage:
        """The result after entries with the same graph were merged, proved anew."""
        for each in now.covering:
            each.entry.guarded_code.pinned = True
        return self.check() if upkeep.compact(self.target.state) else now

    def drop_entries_not_described(self) -> None:
        """Drops entries with a graph break that were made before shapes were declared: what they hand over is not known."""
        for entry in self.target.entries():
            if entry.guarded_code.broken and entry.guarded_code.described is None:
                upkeep.evict(self.target.state, entry, "undescribed")

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
        if made.refused == UNKNOWN:
            return self.result("unknown", point, f"{made.refused}: {made.entry.guarded_code.guards_text.splitlines()[-1]}")
        if made.refused is not None and self.calls.copies_objects:
            return self.result(
                "refused", point, f"the example was copied, and calls with the objects themselves may differ: {made.refused}"
            )
        if made.refused is not None or not made.region.check(point):
            raise InternalTracerError(
                f"the entry traced for {point_text(point)} does not serve it: {made.refused or made.region.text(self.domain)}"
            )
        return None


def _explain_break(entry: Served, why: str) -> str:
    """Why the graph breaks, what is therefore not known, and what the user can do."""
    return f"{entry.entry.guarded_code.reason}\n  {_BEHIND_A_BREAK.format(why=why)}"


_BEHIND_A_BREAK = """\
What runs after the break is not covered: {why}.
  So the shapes that come to this break are not certified. To certify them, take what breaks out of the function: write the parts
  before and after it as two functions, and compile and certify each. Or send each shape once before the first request, and seal
  with on_miss="eager" or "background", because "error" would end a call after half of it has run."""


_UNLIKE_EXAMPLE = """\
The example itself finds no entry, though each shape has one: {text}
  Entries are made for new tensors: they share no memory with others, begin where their memory begins, and are contiguous. Give
  such tensors in the example and in calls. A tensor that is declared as strided ("x: B, S strided") need not be contiguous."""
