"""`RegionState`: one decorated object, with its settings, its cache entries, and what happens at a miss."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import sys
import time
import traceback
import types
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import torch

from shapes import ConstraintViolationError, solver
from tracer import _C, config, errors, metrics
from tracer.backends.calling import Backend
from tracer.effects.torch_state import operations_are_observed, preserve_global_state
from tracer.guards.base import Guard
from tracer.metrics import counters
from tracer.runtime import agreement, ending_blocks, events, misses, sharing, stances, stored_entries, twins, upkeep
from tracer.runtime.collector import seldom_collecting
from tracer.runtime.entries_of_code import entries_of_code
from tracer.runtime.frame_filter import TRACE, answer_without_tracing
from tracer.runtime.frame_state import FrameState
from tracer.runtime.guarded_code import decision_among, entries_of, find_entry
from tracer.runtime.missed_calls import Explanations
from tracer.runtime.shape_spec import Declared, ShapeSpec
from tracer.runtime.spec_choice import SpecChoice
from tracer.runtime.time_limit import TimeLimit
from tracer.runtime.tracing_lock import TRACING
from tracer.sources.base import FrameValues
from tracer.user_marks import IdentityMap

ALL_REGIONS: weakref.WeakSet[RegionState] = weakref.WeakSet()
RESUME_LIMIT = 24
log = logging.getLogger("tracer")

#: (region, function, arguments, torch's state before the call, time limit) -> the entry for that call
ConvertFrame = Callable[["RegionState", types.FunctionType, tuple[Any, ...], _C.GlobalState, TimeLimit], Any]


class MissHandler(Protocol):
    """What is done about misses in place of traces. `policy`: its name."""

    policy: str

    def __call__(self, function: types.FunctionType, args: tuple[Any, ...]) -> None:
        """Called at a miss of this function with these argument slots."""
        ...


@dataclasses.dataclass(eq=False, repr=False)
class RegionState:
    """One decorated object: its settings, its entries (held by `region`), and the state of its frames."""

    compiler_fn: Backend
    convert_frame: ConvertFrame
    fullgraph: bool = False
    dynamic: bool | None = None
    name: str = ""
    recompile_limit: int | None = None
    on_graph: Callable[[torch.fx.GraphModule, list[Any]], None] | None = None
    on_break: Callable[[errors.Unsupported], None] | None = None
    on_guards: Callable[[Any], None] | None = None
    on_inputs: Callable[[list[str], list[str]], None] | None = None
    on_not_traced: Callable[[], Any] | None = None
    guard_fail_fn: Callable[[Any], None] | None = None
    guard_export_fn: Callable[[Any], None] | None = None
    guard_filter_fn: Callable[[list[Guard], FrameValues], Iterable[bool]] | None = None  # which guards an entry keeps
    shapes: ShapeSpec | SpecChoice | None = None  # what the user declared of the sizes of the decorated function's arguments
    capacity: int | None = None  # entries of one code object; beyond it the least recently used are evicted
    compile_timeout: float | None = None  # seconds; None: config.compile_timeout
    on_evict: Callable[[upkeep.Eviction], None] | None = None
    is_of_module: bool = False  # it serves calls of one module, and shares with regions of modules that are like it

    def __post_init__(self) -> None:
        if self.compiler_fn.needs_real_inputs:
            self.dynamic = False
        self.miss_handler: MissHandler | None = None  # called instead of tracing; see `seal`
        self.ahead: dict[int, Declared] = {}  # id of the arguments of a resume function that no call has made -> their sizes
        self.coverage: Any = None  # the last result of `tracer.coverage` or `tracer.precompile`
        # (name, spec, example) of each kind of call that a file of entries was certified for
        self.loaded_variants: list[Any] = []
        self.stats: Counter[str] = Counter()  # event -> how often it happened
        self.explanations = Explanations()  # of calls that missed
        self.compile_seconds = 0.0  # of all traces, also of those that made no entry
        self.compiles = metrics.Histogram()  # of the seconds that each entry took
        self.frame_states = IdentityMap()  # code -> {id of its globals: FrameState}
        self.roots = IdentityMap()  # code of decorated functions and of resume functions: traced wherever it is defined
        self.resume_codes = IdentityMap()  # the part of `roots` that belongs to resume functions
        self.returning_codes = IdentityMap()  # the part of those whose result a resume function of an outer frame gets
        # (id of code, id of globals) -> dispatcher. The dispatcher keeps both alive, and the entry that calls it keeps it alive.
        self.resumes: weakref.WeakValueDictionary[tuple[int, int], _C.Dispatcher] = weakref.WeakValueDictionary()
        self.shares_code = False  # whether it serves calls of one function, and shares with regions of functions of the same code
        self.structure: int | None = None  # of the module or function at its last miss, see runtime.twins
        self.families: dict[tuple[Any, ...], twins.Family] = {}  # of the twins that it has, by what they have in common
        self.left_to_cpython = IdentityMap()  # code of resume functions that CPython runs
        self.stored: dict[tuple[str, int, int], _C.Entry | None] = {}  # made of files of `config.cache_dir`
        self.region = _C.Region(_callback_of(self), decision_among)
        ALL_REGIONS.add(self)

    @property
    def backend(self) -> Backend:
        """What traces are compiled by now: `compiler_fn`, or what a stance forces on all regions."""
        return stances.forced() or self.compiler_fn

    def entries(self) -> list[_C.Entry]:
        return self.region.entries()

    def hits(self) -> int:
        """How many calls entries have served, also entries that are gone."""
        return sum(entry.hits for entry in self.entries() if entry.valid) + self.stats["hits of removed entries"]

    def reset(self) -> None:
        """Forgets every entry and every size that was seen. What was counted stays."""
        self.stats["hits of removed entries"] += sum(entry.hits for entry in self.entries() if entry.valid)
        self.region.clear()
        self.frame_states.clear()
        self.resumes.clear()
        self.left_to_cpython.clear()
        self.explanations.clear()
        self.families.clear()
        self.stored.clear()
        self.coverage = None
        self.loaded_variants = []
        agreement.reset(self.region)

    def add_root(self, code: types.CodeType) -> None:
        self.roots.set(code)

    def seal(self, miss_handler: MissHandler) -> None:
        """From now on a miss is not traced: the handler is called, and unless it raises, CPython runs the call."""
        self.miss_handler = miss_handler

    def unseal(self) -> None:
        """Misses are traced again."""
        self.miss_handler = None

    def keep_coverage(self, coverage: Any) -> None:
        """Keeps the last result of `tracer.coverage` or `tracer.precompile`."""
        self.coverage = coverage

    @contextlib.contextmanager
    def declaring(self, shapes: ShapeSpec | SpecChoice) -> Iterator[None]:
        """Declares the shapes of the decorated function's arguments, for good; if the block raises, as they were before."""
        before, self.shapes = self.shapes, shapes
        try:
            yield
        except BaseException:
            self.shapes = before
            raise

    @contextlib.contextmanager
    def reporting_breaks_to(self, on_break: Callable[[errors.Unsupported], None]) -> Iterator[None]:
        """Within, `on_break` is called for each graph break, in place of the region's own hook."""
        before, self.on_break = self.on_break, on_break
        try:
            yield
        finally:
            self.on_break = before

    # -- a miss ------------------------------------------------------------------------------------------------------

    def on_miss(self, function: types.FunctionType, args: tuple[Any, ...]) -> Any:
        """The callback of `_C.Region`: an entry to run, None (CPython runs this call) or SKIP (CPython always runs this code)."""
        code = function.__code__
        if code in self.left_to_cpython:
            return _C.SKIP
        if code not in self.roots:  # a function that a decorated one called, offered by the frame hook
            if self.fullgraph:  # the decorated function runs in CPython this time, as a whole
                return None
            answer = answer_without_tracing(function, args)
            if answer is not TRACE:
                return answer
        if operations_are_observed():
            return self._run_in_cpython()
        self.stats["miss"] += 1
        if metrics.listeners:
            events.tell_miss(self, function, args)
        if agreement.is_forced(code):
            return self.miss_with_other_ranks(function, args)
        return None if misses.runs_uncompiled(self, function, args) else self.trace(function, args)

    def miss_with_other_ranks(self, function: types.FunctionType, args: tuple[Any, ...]) -> Any:
        """As `on_miss`, where an entry holds. It serves the call if nothing may be traced here."""
        existing = entries_of(self.region, function.__code__, function.__globals__)
        may_trace = stances.current() == "default" and self.miss_handler is None and upkeep.has_room(self, existing)
        return self.trace(function, args) if may_trace else find_entry(existing, function, args)

    def trace(self, function: types.FunctionType, args: tuple[Any, ...], *, concurrent: bool = False) -> Any:
        """As `on_miss`, but whatever the stance and the seal. `concurrent`: other threads run the program meanwhile."""
        code = function.__code__
        declared = self.declared_shapes(function, args)
        if declared is not None:
            declared.point()  # a call outside of the domain waits for no other trace
        agreement.begin(self, function)
        with TRACING:
            try:
                return self.find_or_make_entry(function, args, concurrent)
            except errors.NotNow:
                return self._run_in_cpython()
            except (errors.Unsupported, errors.UserError, errors.BackendCompilerFailed, errors.RecompileError,
                    errors.FailOnRecompileLimitHit):  # fmt: skip
                raise
            except errors.CompileTimeout as error:
                return misses.report_timeout(self, function, error)
            except Exception as error:
                if not config.suppress_errors:
                    raise
                counters["errors"][type(error).__name__] += 1
                details = f"\n{traceback.format_exc()}" if config.verbose else ""
                warnings.warn(
                    f"shapetracer failed on {code.co_qualname} ({code.co_filename}:{code.co_firstlineno}), which runs "
                    f"without it. Please report this: {type(error).__name__}: {error}{details}",
                    stacklevel=2,
                )
                self.record_event("skip", function, f"{type(error).__name__}: {error}", reason="error")
                return _C.SKIP

    def _run_in_cpython(self) -> None:
        """The answer for a call that may not be traced, though one like it may."""
        if self.on_not_traced is not None:
            self.on_not_traced()

    def frame_state(self, function: types.FunctionType) -> FrameState:
        return self.state_of(function.__code__, function.__globals__)

    def state_of(self, code: types.CodeType, globals_: dict[str, Any]) -> FrameState:
        by_globals: dict[int, FrameState] = self.frame_states.setdefault(code, {})
        return by_globals.setdefault(id(globals_), FrameState())

    def record_event(self, kind: str, function: types.FunctionType, detail: str, **more: Any) -> None:
        """Counts an event and tells those who listen; `events.tell` has the parameters."""
        self.stats[kind] += 1
        if metrics.listeners:
            events.tell(self, kind, function, detail, **more)

    def find_or_make_entry(self, function: types.FunctionType, args: tuple[Any, ...], concurrent: bool = False) -> Any:
        """The entry for a call, installed unless `concurrent`. None where a limit forbids a compile; SKIP as `compile_entry`."""
        code = function.__code__
        existing = entries_of(self.region, code, function.__globals__)
        forced = agreement.is_forced(code)
        served = None if forced else find_entry(existing, function, args)
        if served is not None:  # another thread has made it meanwhile
            return served
        family = twins.family_of(self, function, args)
        if family is not None and not forced and upkeep.has_room(self, existing):
            taken = self._take_over(family, function, args, existing)
            if taken is not None:
                self._add(function, taken, existing, concurrent)
                return taken
        dead_objects = self.frame_state(function).dead_objects
        if existing or dead_objects:
            misses.report_recompile(self, function, args, existing)
        everywhere = entries_of_code(code)
        if not upkeep.has_room(self, existing) or everywhere.reach(config.accumulated_recompile_limit):
            if misses.leaves_loop(self, function):
                return _C.SKIP
            misses.report_limit(self, function, args, existing)
            return None
        if misses.is_out_of_time(self, function):
            return None
        if existing or dead_objects:
            failures = misses.miss_reasons(self, function, args, existing) if metrics.listeners else []
            dead_objects.clear()
            kept = [failure.without_data() for failure in failures]
            self.record_event("recompile", function, "\n".join(map(str, kept)), reason="guards", failures=kept)
        history = self.frame_state(function).history
        if family is not None:
            history.learn(family.history)
        entry = self.compile_entry(function, args, concurrent)
        if family is not None:
            family.history.learn(history)
        if entry is not _C.SKIP:
            everywhere.add(entry)
            if family is not None:
                sharing.note_compile(self, family, entry, history.seen)
            self._add(function, entry, existing, concurrent)
        return entry

    def _take_over(
        self, family: twins.Family, function: types.FunctionType, args: tuple[Any, ...], existing: list[_C.Entry]
    ) -> _C.Entry | None:
        """The entry for a call that a twin has compiled, not installed; None if none has."""
        entry = sharing.take_over(self, family, function, args, existing)
        if entry is not None:
            state, compiled = self.frame_state(function), entry.guarded_code.compiled
            state.dead_objects.clear()
            state.history.repeat(compiled.seen)
            self.record_event("share", function, f"an entry of {compiled.region} was taken over", entry=entry, args=args)
        return entry

    def _add(self, function: types.FunctionType, entry: _C.Entry, existing: list[_C.Entry], concurrent: bool) -> None:
        if existing:
            upkeep.retire_and_evict(self, function, entry)
        if not concurrent:  # under the tracing lock, so that threads that wait for it find the entry
            self.region.install(function.__code__, function.__globals__, entry)

    def compile_entry(self, function: types.FunctionType, args: tuple[Any, ...], concurrent: bool = False) -> Any:
        """A new entry for this call, whether or not one serves it, which another process may have made; SKIP where CPython is
        always to run the code."""
        store = stored_entries.store()
        stored = None if store is None else store.find(self, function, args)
        if stored is not None:
            return stored
        while True:
            try:
                entry = self._compile_entry(function, args, concurrent)
                if store is not None and entry is not _C.SKIP:
                    store.keep(self, function, args, entry)
                return entry
            except errors.ImportFirst as first:  # not under the lock: another thread may import what waits for it
                first.run()

    def _compile_entry(self, function: types.FunctionType, args: tuple[Any, ...], concurrent: bool) -> Any:
        snapshot = _C.GlobalState()
        started = time.perf_counter()
        limit = TimeLimit(config.compile_timeout if self.compile_timeout is None else self.compile_timeout)
        try:
            captured = config.patch(self._captured())
            with (
                TRACING,
                preserve_global_state(random_numbers=not concurrent),
                captured,
                solver.until(limit.ends),
                solver.budget(),
                seldom_collecting(),
            ):
                limit.refuse_while_abandoned_runs()
                entry = self.convert_frame(self, function, args, snapshot, limit)
            seconds = time.perf_counter() - started
            self.compile_seconds += seconds
            counters["frames"]["ok"] += entry is not _C.SKIP
            if entry is not _C.SKIP:
                self.compiles.note(seconds)
                self.record_event("compile", function, "an entry was made", seconds=seconds, entry=entry, args=args)
            return entry
        except errors.LeftToCPython as given_up:
            counters["frames"]["skipped"] += 1
            return self._leave_to_cpython(function, given_up)
        except ConstraintViolationError as contradicted:
            raise errors.ConstraintViolationError.of(contradicted) from None
        finally:
            counters["frames"]["total"] += 1
            counters["seconds"]["tracing"] += time.perf_counter() - started  # type: ignore[assignment]  # seconds are floats

    def _captured(self) -> dict[str, bool]:
        """Settings: what depends on data enters the graph where a break is an error, and in each function whose entries are to
        serve declared shapes, those after a break too."""
        data = self.fullgraph or self.shapes is not None
        return {
            "capture_scalar_outputs": config.capture_scalar_outputs or data,
            "capture_dynamic_output_shape_ops": config.capture_dynamic_output_shape_ops or data,
        }

    def compile_entry_ahead(self, function: types.FunctionType, args: tuple[Any, ...], sizes: Declared | None = None) -> Any:
        """As `compile_entry`, for a call that is not being made. The entry is not installed. `sizes`: those of a call of a resume
        function."""
        if sizes is not None:
            self.ahead[id(args)] = sizes
        try:
            return _outside_dynamo(self.compile_entry)(function, args)
        finally:
            self.ahead.pop(id(args), None)

    def trace_in_background(self, function: types.FunctionType, args: tuple[Any, ...]) -> Any:
        """As `trace`, called by a thread that traces while other threads run the program."""
        return _outside_dynamo(self.trace)(function, args, concurrent=True)

    def declared_shapes(self, function: types.FunctionType, args: tuple[Any, ...]) -> Declared | None:
        """What the user declared of the sizes of this call, if it is a call of the decorated function itself. Of a call of a
        resume function that is compiled ahead, what follows from that."""
        if id(args) in self.ahead:
            return self.ahead[id(args)]
        code = function.__code__
        if self.shapes is None or code not in self.roots or code in self.resume_codes:
            return None
        return self.shapes.bind(function, args)

    def dynamic_of(self, declared: Declared | None) -> bool | None:
        """`dynamic` for one trace. Where shapes are declared, what is not declared may be constant (`dynamic=False`); behind a
        graph break, though, there are sizes that vary with those declared."""
        if self.backend.needs_real_inputs:
            return False
        behind_break = self.shapes is not None and declared is None
        return None if behind_break and self.dynamic is False else self.dynamic

    def limit(self) -> int:
        return config.recompile_limit if self.recompile_limit is None else self.recompile_limit

    def make_resume(
        self, code: types.CodeType, globals_: dict[str, Any], runs_in_cpython: bool = False, returns: bool = False
    ) -> _C.Dispatcher:
        """The dispatcher of a resume function. `runs_in_cpython`: the function itself is not traced, but what it calls is.
        `returns`: a resume function of an outer frame gets its result."""
        if returns:
            self.returning_codes.set(code)
        if runs_in_cpython:
            self.left_to_cpython.set(code)
        known = self.resumes.get((id(code), id(globals_)))
        if known is not None:
            return known
        closure = tuple(types.CellType() for _ in code.co_freevars) or None
        function = types.FunctionType(code, globals_, code.co_name, None, closure)
        function.__qualname__ = code.co_qualname
        self.add_root(code)
        self.resume_codes.set(code)
        dispatcher = self.resumes[id(code), id(globals_)] = _C.Dispatcher(self.region, function, RESUME_LIMIT)
        return dispatcher

    def _leave_to_cpython(self, function: types.FunctionType, given_up: errors.LeftToCPython) -> Any:
        code = function.__code__
        log.debug("%s is left to CPython: %s", code.co_qualname, given_up.reason)
        reason = given_up.reason
        text = "nothing of it can be traced" if reason is None else str(reason)
        self.record_event("skip", function, text, reason="" if reason is None else reason.id, error=reason)
        return _C.SKIP


def _callback_of(state: RegionState) -> Callable[..., Any]:
    """The miss callback of the region. It holds the state, which therefore lives as long as the decorated object."""

    def on_miss(region: _C.Region, function: types.FunctionType, args: tuple[Any, ...]) -> Any:
        with agreement.handling_miss():
            if state.miss_handler is not None and function.__code__ not in state.roots:
                return None  # called by a missed call that runs uncompiled, as hundreds of functions of a model are
            resumes = function.__code__ in state.resume_codes
            if resumes and ending_blocks.is_on_the_way(args):
                return ending_blocks.as_written(function)
            try:
                return _outside_dynamo(state.on_miss)(function, args)
            except BaseException as error:
                raises = ending_blocks.raising(function, error) if resumes else None
                if raises is None:
                    raise
                return raises

    return on_miss


def _outside_dynamo(method: Callable[..., Any]) -> Callable[..., Any]:
    """Keeps torch.compile, where the program uses it, from tracing the tracer."""
    return functools.partial(_call_outside_dynamo(), method) if "torch._dynamo" in sys.modules else method


@functools.cache
def _call_outside_dynamo() -> Callable[..., Any]:
    def call(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    found: Callable[..., Any] = torch.compiler.disable(call)
    return found
