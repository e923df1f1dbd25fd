"""One decorated object: what happens where none of its entries serves a call, and what was learnt by then."""

from __future__ import annotations

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
from collections.abc import Callable
from typing import Any

import torch

from shapes import ConstraintViolationError, solver
from tracer import _C, config, errors, metrics
from tracer.backends.calling import Backend
from tracer.effects.torch_state import preserve_global_state, shows_operations
from tracer.metrics import counters
from tracer.runtime import misses, upkeep
from tracer.runtime.frame_filter import TRACE, answer_without_tracing
from tracer.runtime.frame_state import FrameState
from tracer.runtime.guarded_code import decide, entries_of, serving
from tracer.runtime.shape_spec import Declared, ShapeSpec
from tracer.runtime.time_limit import TimeLimit
from tracer.runtime.tracing_lock import TRACING
from tracer.user_marks import IdentityMap

ALL_REGIONS: weakref.WeakSet[RegionState] = weakref.WeakSet()
RESUME_LIMIT = 24
_entries_of_code = IdentityMap()  # a WeakSet of those in all regions, for `accumulated_recompile_limit`
log = logging.getLogger("tracer")

#: From a call (of this region, this function, these arguments), the state of torch before it, and a limit to an entry.
ConvertFrame = Callable[["RegionState", types.FunctionType, tuple[Any, ...], _C.GlobalState, TimeLimit], Any]


@dataclasses.dataclass(eq=False, repr=False)
class RegionState:
    """One decorated object: its settings, its entries (held by `region`), and what was learnt about its frames."""

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
    on_left_alone: Callable[[], Any] | None = None
    guard_fail_fn: Callable[[Any], None] | None = None
    guard_export_fn: Callable[[Any], None] | None = None
    guard_filter_fn: Callable[[Any], Any] | None = None
    shapes: ShapeSpec | None = None  # what the user declares of the sizes of the decorated function's arguments
    capacity: int | None = None  # of entries of one code object; beyond it those used last longest ago go
    compile_timeout: float | None = None  # seconds; None: as the settings say
    on_evict: Callable[[upkeep.Eviction], None] | None = None

    def __post_init__(self) -> None:
        if self.compiler_fn.needs_real_inputs:
            self.dynamic = False
        self.at_miss: Callable[[types.FunctionType, tuple[Any, ...]], None] | None = None  # in place of a trace: a seal
        self.coverage: Any = None  # what was last proved of the entries, or found to be missing
        self.stats: Counter[str] = Counter()  # how often what happened
        self.seconds = 0.0  # that compiles took
        self.frames = IdentityMap()  # code -> the id of its globals -> FrameState
        self.roots = IdentityMap()  # code objects that the user decorated, traced wherever they are defined
        self.behind_breaks = IdentityMap()  # those among them that resume functions have, which may outlive these
        # By code and globals, which they keep alive as the code that calls them keeps them.
        self.resumes: weakref.WeakValueDictionary[tuple[int, int], _C.Dispatcher] = weakref.WeakValueDictionary()
        self.left = IdentityMap()  # the code of those that CPython runs
        self.region = _C.Region(_callback_of(self), decide)
        ALL_REGIONS.add(self)

    def entries(self) -> list[_C.Entry]:
        return self.region.entries()

    def reset(self) -> None:
        """Forgets every entry and what was learnt about varying sizes."""
        self.region.clear()
        self.frames.clear()
        self.resumes.clear()
        self.left.clear()
        self.coverage = None

    def add_root(self, code: types.CodeType) -> None:
        self.roots.set(code)

    # -- a miss ------------------------------------------------------------------------------------------------------

    def on_miss(self, function: types.FunctionType, args: tuple[Any, ...]) -> Any:
        """The region's callback: an entry to run, None (not now) or SKIP (never)."""
        code = function.__code__
        if code in self.left:
            return _C.SKIP
        if code not in self.roots:  # a callee that nobody knew, which the hook offers
            if self.fullgraph:  # its caller is left to CPython as a whole, this time
                return None
            answer = answer_without_tracing(function, args)
            if answer is not TRACE:
                return answer
        if shows_operations():
            if self.on_left_alone is not None:
                self.on_left_alone()
            return None
        self.happened("miss", function, args=args)
        return None if misses.is_answered(self, function, args) else self.traced(function, args)

    def traced(self, function: types.FunctionType, args: tuple[Any, ...], *, beside_others: bool = False) -> Any:
        """As `on_miss`, whatever the stance and the seal. `beside_others`: the program goes on meanwhile in other threads."""
        code = function.__code__
        with TRACING:
            try:
                return self.convert(function, args, beside_others)
            except errors.NotNow:
                return None
            except (errors.Unsupported, errors.UserError, errors.BackendCompilerFailed, errors.RecompileError,
                    errors.FailOnRecompileLimitHit):  # fmt: skip
                raise
            except errors.CompileTimeout as error:
                return misses.timed_out(self, function, error)
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
                self.happened("skip", function, f"{type(error).__name__}: {error}")
                return _C.SKIP

    def frame_state(self, function: types.FunctionType) -> FrameState:
        return self.state_of(function.__code__, function.__globals__)

    def state_of(self, code: types.CodeType, globals_: dict[str, Any]) -> FrameState:
        by_globals: dict[int, FrameState] = self.frames.setdefault(code, {})
        return by_globals.setdefault(id(globals_), FrameState())

    def happened(self, kind: str, function: types.FunctionType, detail: str = "", seconds: float = 0.0, **about: Any) -> None:
        """Counts an event and tells those who listen."""
        self.stats[kind] += 1
        if metrics.listened:
            about.update(state=self, code=function.__code__)
            metrics.tell(metrics.Event(kind, self.name, function.__qualname__, detail, seconds, about))

    def convert(self, function: types.FunctionType, args: tuple[Any, ...], beside_others: bool = False) -> Any:
        code = function.__code__
        existing = entries_of(self.region, code, function.__globals__)
        served = serving(existing, function, args)
        if served is not None:  # another thread was faster
            return served
        declared = self.declared(function, args)
        if declared is not None:
            declared.point()
        died = self.frame_state(function).died
        if existing or died:
            misses.report_recompile(self, function, args, existing)
        everywhere = _entries_of_code.get(code)
        if everywhere is None:
            _entries_of_code.set(code, everywhere := weakref.WeakSet())
        accumulated = sum(entry.valid for entry in everywhere)
        if not upkeep.has_room(self, existing) or accumulated >= config.accumulated_recompile_limit:
            misses.limit_hit(self, function, args, existing)
            return None
        if misses.out_of_time(self, function):
            return None
        if existing or died:
            failures = misses.reasons(self, function, args, existing) if metrics.listened else ()
            died.clear()
            self.happened("recompile", function, "\n".join(map(str, failures)), failures=failures)
        entry = self.make_entry(function, args, beside_others)
        if entry is not _C.SKIP:
            everywhere.add(entry)
            if existing:
                upkeep.settle(self, function, entry)
            if not beside_others:  # who waits for the lock is to find it
                self.region.install(code, function.__globals__, entry)
        return entry

    def make_entry(self, function: types.FunctionType, args: tuple[Any, ...], beside_others: bool = False) -> Any:
        """A new entry for this call, whatever there is already; SKIP where the frame is left to CPython for good."""
        snapshot = _C.GlobalState()
        started = time.perf_counter()
        limit = TimeLimit(config.compile_timeout if self.compile_timeout is None else self.compile_timeout)
        try:
            captured = config.patch(capture_scalar_outputs=config.capture_scalar_outputs or self.fullgraph)
            with TRACING, preserve_global_state(random_numbers=not beside_others), captured, solver.until(limit.ends):
                limit.begin()
                entry = self.convert_frame(self, function, args, snapshot, limit)
            seconds = time.perf_counter() - started
            self.seconds += seconds
            counters["frames"]["ok"] += entry is not _C.SKIP
            if entry is not _C.SKIP:
                self.happened("compile", function, seconds=seconds, entry=entry, args=args)
            return entry
        except errors.LeftToCPython as gave_up:
            counters["frames"]["skipped"] += 1
            return self._given_up(function, gave_up)
        except ConstraintViolationError as contradicted:
            raise errors.ConstraintViolationError.of(contradicted) from None
        finally:
            counters["frames"]["total"] += 1
            counters["seconds"]["tracing"] += time.perf_counter() - started  # type: ignore[assignment]  # seconds are floats

    def entry_for(self, function: types.FunctionType, args: tuple[Any, ...]) -> Any:
        """As `make_entry`, for a call that nobody makes now; it is not installed."""
        return _beside_dynamo(self.make_entry)(function, args)

    def traced_beside(self, function: types.FunctionType, args: tuple[Any, ...]) -> Any:
        """As at a miss, for a thread that traces while others serve."""
        return _beside_dynamo(self.traced)(function, args, beside_others=True)

    def declared(self, function: types.FunctionType, args: tuple[Any, ...]) -> Declared | None:
        """What was declared of the sizes of this call, if it is one of the decorated function itself."""
        code = function.__code__
        if self.shapes is None or code not in self.roots or code in self.behind_breaks:
            return None
        return self.shapes.bind(code, args)

    def limit(self) -> int:
        return config.recompile_limit if self.recompile_limit is None else self.recompile_limit

    def make_resume(self, code: types.CodeType, globals_: dict[str, Any], is_left: bool = False) -> _C.Dispatcher:
        """`is_left`: CPython runs it; what it calls is traced by itself."""
        if is_left:
            self.left.set(code)
        known = self.resumes.get((id(code), id(globals_)))
        if known is not None:
            return known
        closure = tuple(types.CellType() for _ in code.co_freevars) or None
        function = types.FunctionType(code, globals_, code.co_name, None, closure)
        function.__qualname__ = code.co_qualname
        self.add_root(code)
        self.behind_breaks.set(code)
        dispatcher = self.resumes[id(code), id(globals_)] = _C.Dispatcher(self.region, function, RESUME_LIMIT)
        return dispatcher

    def _given_up(self, function: types.FunctionType, gave_up: errors.LeftToCPython) -> Any:
        code = function.__code__
        log.debug("%s is left to CPython: %s", code.co_qualname, gave_up.reason)
        self.happened("skip", function, str(gave_up.reason or ""), error=gave_up.reason)
        return _C.SKIP


def _callback_of(state: RegionState) -> Callable[..., Any]:
    """Holds the state: whoever holds the region (a decorated object) keeps it alive."""

    def on_miss(region: _C.Region, function: types.FunctionType, args: tuple[Any, ...]) -> Any:
        if state.at_miss is not None and function.__code__ not in state.roots:
            return None  # a callee of a missed call that runs uncompiled: there are hundreds in a model, none is traced
        return _beside_dynamo(state.on_miss)(function, args)

    return on_miss


def _beside_dynamo(method: Callable[..., Any]) -> Callable[..., Any]:
    """Where torch.compile was used, it is not to trace the tracer."""
    return functools.partial(_out_of_dynamo(), method) if "torch._dynamo" in sys.modules else method


@functools.cache
def _out_of_dynamo() -> Callable[..., Any]:
    def call(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return method(*args, **kwargs)

    found: Callable[..., Any] = torch.compiler.disable(call)
    return found
