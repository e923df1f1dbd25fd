"""From a frame that no entry serves to a new entry: trace, compile the graph, emit code, build `check_fn`.

Read `RegionState.convert` as the table of contents; each step lives in the room that its import names.
"""
from __future__ import annotations

import functools
import itertools
import logging
import sys
import threading
import time
import traceback
import types
import warnings
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

from shapes import ConstraintViolationError, emission
from tracer import _C, config, errors, graph_breaks, guards, log_texts, logs, metrics, misses, upkeep
from tracer.backends.calling import Backend
from tracer.cache import GuardedCode, decide, entries_of, failures_of, make_entry
from tracer.codegen.output_code import OutputCode, OutputCodeBuilder
from tracer.frame_filter import TRACE, answer_without_tracing
from tracer.frame_state import DynamismPolicy, FrameState
from tracer.graph.fake_tensors import FakeWorld
from tracer.graph.graph_module import build_graph_module
from tracer.graph_breaks import unsupported
from tracer.interpreter.trace import BreakHere, Trace
from tracer.interpreter.translator import InstructionTranslator
from tracer.metrics import counters
from tracer.preserve import plainly, preserve_global_state, restoring, shows_operations
from tracer.shape_spec import Declared, ShapeSpec
from tracer.sources import CellSource, LocalSource
from tracer.time_limit import TimeLimit
from tracer.trace_guards import guards_of
from tracer.user_marks import IdentityMap
from tracer.variables.base import ObservedException
from tracer.variables.functions import CellVariable, cell_of
from tracer.variables.generators import GeneratorVariable
from tracer.variables.iterators import IteratorVariable
from tracer.variables.lazy import Unwrapped
from tracer.variables.lookups import recorded
from tracer.variables.mappings import DictVariable

ALL_REGIONS: weakref.WeakSet[RegionState] = weakref.WeakSet()
RESUME_LIMIT = 24
_MAX_ATTEMPTS = 40
_graph_ids = itertools.count()
_resume_ids = itertools.count(1)
_tracing = threading.RLock()
_traces_of_code = IdentityMap()  # over all regions, for `accumulated_recompile_limit`
log = logging.getLogger("tracer")


class GaveUp(Exception):
    """This frame is left to CPython."""

    def __init__(self, reason: errors.Unsupported | None) -> None:
        super().__init__(reason)
        self.reason = reason


class RegionState:
    """One decorated object: its settings, its entries (held by `region`), and what was learnt about its frames."""

    def __init__(
        self,
        compiler_fn: Backend,
        fullgraph: bool = False,
        dynamic: bool | None = None,
        name: str = "",
        recompile_limit: int | None = None,
        on_graph: Callable[[torch.fx.GraphModule, list[Any]], None] | None = None,
        on_break: Callable[[errors.Unsupported], None] | None = None,
        on_guards: Callable[[Any], None] | None = None,
        on_inputs: Callable[[list[str], list[str]], None] | None = None,
        on_left_alone: Callable[[], Any] | None = None,
        guard_fail_fn: Callable[[Any], None] | None = None,
        guard_export_fn: Callable[[Any], None] | None = None,
        guard_filter_fn: Callable[[Any], Any] | None = None,
        shapes: ShapeSpec | None = None,
        capacity: int | None = None,
        compile_timeout: float | None = None,
        on_evict: Callable[[upkeep.Eviction], None] | None = None,
    ) -> None:
        self.compiler_fn = compiler_fn
        self.fullgraph = fullgraph
        self.dynamic = False if compiler_fn.needs_real_inputs else dynamic
        self.name = name
        self.recompile_limit = recompile_limit
        self.on_graph = on_graph
        self.on_break = on_break
        self.on_guards = on_guards
        self.on_inputs = on_inputs
        self.on_left_alone = on_left_alone
        self.guard_fail_fn = guard_fail_fn
        self.guard_export_fn = guard_export_fn
        self.guard_filter_fn = guard_filter_fn
        self.shapes = shapes  # what the user declares of the sizes of the decorated function's arguments
        self.capacity = capacity  # of entries of one code object; beyond it those used last longest ago go
        self.compile_timeout = compile_timeout  # seconds; None: as the settings say
        self.on_evict = on_evict
        self.at_miss: Callable[[types.FunctionType, tuple[Any, ...]], None] | None = None  # in place of a trace: a seal
        self.coverage: Any = None  # what was last proved of the entries, or found to be missing
        self.stats: Counter[str] = Counter()  # how often what happened
        self.seconds = 0.0  # that compiles took
        self.frames: dict[tuple[int, int], FrameState] = {}
        self.roots: set[int] = set()  # ids of code objects that the user decorated, traced wherever they are defined
        self.resumes: dict[tuple[int, int], _C.Dispatcher] = {}  # by code and globals, which they keep alive
        self.region = _C.Region(_callback_of(self), decide)
        ALL_REGIONS.add(self)

    def entries(self) -> list[_C.Entry]:
        return self.region.entries()

    def reset(self) -> None:
        """Forgets every entry and what was learnt about varying sizes."""
        self.region.clear()
        self.frames.clear()
        self.resumes.clear()
        self.coverage = None

    def add_root(self, code: types.CodeType) -> None:
        self.roots.add(id(code))

    # -- a miss ------------------------------------------------------------------------------------------------------

    def on_miss(self, function: types.FunctionType, args: tuple[Any, ...]) -> Any:
        """The region's callback: an entry to run, None (not now) or SKIP (never)."""
        code = function.__code__
        if id(code) not in self.roots:  # a callee that nobody knew, which the hook offers
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
        with _tracing:
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
                return _C.SKIP

    def frame_state(self, function: types.FunctionType) -> FrameState:
        return self.frames.setdefault((id(function.__code__), id(function.__globals__)), FrameState())

    def happened(
        self, kind: str, function: types.FunctionType, detail: str = "", seconds: float = 0.0, **about: Any
    ) -> None:
        """Counts an event and tells those who listen."""
        self.stats[kind] += 1
        if metrics.listened:
            about.update(state=self, code=function.__code__)
            metrics.tell(metrics.Event(kind, self.name, function.__qualname__, detail, seconds, about))

    def convert(self, function: types.FunctionType, args: tuple[Any, ...], beside_others: bool = False) -> Any:
        code = function.__code__
        existing = entries_of(self.region, code, function.__globals__)
        declared = self.declared(function, args)
        if declared is not None:
            declared.point()
        if existing:
            misses.report_recompile(self, function, args, existing)
        accumulated = _traces_of_code.get(code, 0)
        if not upkeep.has_room(self, existing) or accumulated >= config.accumulated_recompile_limit:
            misses.limit_hit(self, function, args, existing)
            return None
        if misses.out_of_time(self, function):
            return None
        if existing:
            failures = failures_of(existing, function, args) if metrics.listened else ()
            self.happened("recompile", function, "\n".join(map(str, failures)), failures=failures)
        entry = self.make_entry(function, args, beside_others)
        _traces_of_code.set(code, accumulated + 1)
        if existing and entry is not _C.SKIP:
            upkeep.settle(self, function, entry)
        return entry

    def make_entry(self, function: types.FunctionType, args: tuple[Any, ...], beside_others: bool = False) -> Any:
        """A new entry for this call, whatever there is already; SKIP where the frame is left to CPython for good."""
        snapshot = _C.GlobalState()
        started = time.perf_counter()
        limit = TimeLimit(config.compile_timeout if self.compile_timeout is None else self.compile_timeout)
        try:
            captured = config.patch(capture_scalar_outputs=config.capture_scalar_outputs or self.fullgraph)
            with _tracing, preserve_global_state(random_numbers=not beside_others), captured:
                entry = self._trace(function, args, limit, snapshot)
            seconds = time.perf_counter() - started
            self.seconds += seconds
            counters["frames"]["ok"] += entry is not _C.SKIP
            if entry is not _C.SKIP:
                self.happened("compile", function, seconds=seconds, entry=entry, args=args)
            return entry
        except GaveUp as gave_up:
            counters["frames"]["skipped"] += 1
            return self._given_up(function, gave_up)
        except ConstraintViolationError as contradicted:
            raise errors.ConstraintViolationError.of(contradicted) from None
        finally:
            counters["frames"]["total"] += 1
            counters["seconds"]["tracing"] += time.perf_counter() - started  # type: ignore[assignment]

    def entry_for(self, function: types.FunctionType, args: tuple[Any, ...]) -> Any:
        """As `make_entry`, for a call that nobody makes now; it is not installed."""
        return _beside_dynamo(self.make_entry)(function, args)

    def traced_beside(self, function: types.FunctionType, args: tuple[Any, ...]) -> Any:
        """As at a miss, for a thread that traces while others serve."""
        return _beside_dynamo(self.traced)(function, args, beside_others=True)

    def declared(self, function: types.FunctionType, args: tuple[Any, ...]) -> Declared | None:
        """What was declared of the sizes of this call, if it is one of the decorated function itself."""
        code = function.__code__
        if self.shapes is None or id(code) not in self.roots or (id(code), id(function.__globals__)) in self.resumes:
            return None
        return self.shapes.bind(code, args)

    def limit(self) -> int:
        return config.recompile_limit if self.recompile_limit is None else self.recompile_limit

    # -- tracing -----------------------------------------------------------------------------------------------------

    def _trace(self, function: types.FunctionType, args: tuple[Any, ...], limit: TimeLimit, snapshot: Any) -> Any:
        """Traces up to the first break, again with the place known for each break met, and makes the entry."""
        break_at: int | None = None
        reason: errors.Unsupported | None = None
        declared, state = self.declared(function, args), self.frame_state(function)
        keeps_branches = True
        for _ in range(_MAX_ATTEMPTS):
            trace = self._new_trace(state, break_at, declared, limit)
            trace.keeps_branches = keeps_branches
            root = root_frame(trace, function, args)
            try:
                with recorded(trace.findings):
                    builder = OutputCodeBuilder(trace, root, self._make_resume, _name_resume)
                    with trace.torch_state.scope():
                        body = self._run(trace, root, builder)
                    return self._finish(function, args, trace, builder, body, snapshot, limit)
            except errors.TraceAnew:
                keeps_branches = False
                continue
            except errors.Unsupported as error:
                break_at = self._next_break(trace, error, break_at)
                reason = error
            except RecursionError:
                reason = errors.Unsupported(graph_breaks.reason("inline-depth"), {"function": code_name(trace.frame)})
                break_at = self._next_break(_half_way_out(trace), reason, break_at)
            finally:
                trace.close()
            errors.forget_frames(reason)  # which leads back to this frame, and so to what the program hands over
        raise GaveUp(reason)

    def _new_trace(
        self, state: FrameState, break_at: int | None, declared: Declared | None, limit: TimeLimit
    ) -> Trace:
        current: weakref.ref[Trace]  # the world outlives the trace, in the graph's fake tensors

        def where() -> Any:
            trace = current()
            return None if trace is None else trace.location()

        always = config.specialize_zero_one == "always"
        world = FakeWorld(duck_shape=config.duck_shape, specialize_zero_one=always, where=where)
        policy = DynamismPolicy(state.history, self.dynamic, frozenset() if declared is None else declared.domain.places)
        trace = Trace(policy, world, break_at, runs_as_written=self.compiler_fn.runs_as_written)
        current = weakref.ref(trace)
        trace.output.check_time = limit.check
        if declared is not None:
            trace.output.declare_sizes(declared.domain, declared.sizes())
        return trace

    def _run(self, trace: Trace, root: InstructionTranslator, builder: OutputCodeBuilder) -> Any:
        """The body of the output code; None where the frame raises, so that CPython has to run it."""
        try:
            body = builder.returning(root.run())
        except BreakHere as at:
            trace.frame = at.frame
            body = builder.breaking(at.frame)
        except ObservedException as raised:
            errors.forget_frames(raised)
            return None
        return body

    def _next_break(self, trace: Trace, error: errors.Unsupported, break_at: int | None) -> int:
        """The step to break at because of `error`; a break that was tried already moves out to the caller."""
        error.at(trace.user_stack())
        step = None
        if not self.fullgraph:
            step = trace.abandons_generator() if error.id == "abandoned-generator" else error.break_step
        if step == 0:
            raise GaveUp(error)
        if step is not None and step != break_at:
            self._note_break(error, trace)
            return step
        frame = trace.frame
        if frame is None or self.fullgraph:
            if self.fullgraph:
                raise error
            raise GaveUp(error)
        if trace.steps != break_at:
            self._note_break(error, trace)
            if error.id == "frame-introspection":  # locals() must see the frame itself, not code that stands in for it
                if frame.parent is None:
                    raise GaveUp(error)
                return frame.parent.break_step()
            return frame.break_step()
        if frame.parent is None:
            raise GaveUp(error)
        return frame.parent.step

    def _note_break(self, error: errors.Unsupported, trace: Trace) -> None:
        self.stats["break"] += 1
        if metrics.listened:
            code = None if trace.frame is None else trace.frame.frames()[0].code
            about = {"state": self, "code": code, "error": error}
            metrics.tell(metrics.Event("break", self.name, str(error.where or ""), str(error), 0.0, about))
        counters["graph_break"][error.id] += 1
        logs.emit("graph_breaks", lambda: log_texts.graph_break(error))
        if self.on_break is not None:
            self.on_break(error)

    def _finish(
        self,
        function: types.FunctionType,
        args: tuple[Any, ...],
        trace: Trace,
        builder: OutputCodeBuilder,
        body: Any,
        snapshot: Any,
        limit: TimeLimit,
    ) -> Any:
        limit.check()
        if body is None:
            return self._entry(function, args, trace, None, snapshot, None, None)
        trace.hashed.ask_again(builder.root)
        nodes = builder.learn_outputs(body)
        _outlive_no_loop(trace)
        if trace.abandons_generator() is not None:  # one that is alive afterwards was rebuilt by now
            unsupported("abandoned-generator", value="suspended in a try or with block")
        output = trace.output
        output.graph.output(tuple(nodes))
        output.remove_dead_nodes()
        inputs = output.remove_unused_inputs()
        broken = trace.break_at is not None
        if self.on_inputs is not None:
            self.on_inputs([item.source.name for item in inputs], _changed(trace))
        if output.operation_count() == 0 and not broken and not config.convert_every_frame:
            return self._without_operations(function, args, trace, snapshot)
        graph_name, compiled, gm = None, None, None
        if output.operation_count() or nodes:
            output.world.env.check_constraints()  # no backend is asked for a graph that contradicts the user
            graph_name = f"__compiled_fn_{next(_graph_ids)}"
            gm = build_graph_module(output, graph_name)
            compiled = self._compile(gm, graph_name, inputs, limit, calls_back=broken)
            if trace.torch_state.in_graph():
                compiled = restoring(compiled)
            if trace.overrides.met_subclass:
                compiled = plainly(compiled)
        fetched = guards.fetchable(
            trace.output.guards, [item.source for item in inputs], function.__code__, function.__globals__
        )
        result = builder.build(body, graph_name, compiled, inputs, fetched if compiled is not None else ())
        logs.emit("bytecode", lambda: log_texts.bytecode("ORIGINAL BYTECODE", function.__code__))
        logs.emit("bytecode", lambda: log_texts.bytecode("MODIFIED BYTECODE", result.code))
        return self._entry(function, args, trace, result, snapshot, gm, graph_name)

    def _without_operations(
        self, function: types.FunctionType, args: tuple[Any, ...], trace: Trace, snapshot: Any
    ) -> Any:
        """A frame that gave no operation is left to CPython: for good if it has nothing to do with tensors."""
        if not trace.input_tensors and id(function.__code__) not in self.roots:
            return _C.SKIP
        return self._entry(function, args, trace, None, snapshot, None, None)

    def _compile(
        self, gm: torch.fx.GraphModule, name: str, inputs: list[Any], limit: TimeLimit, calls_back: bool
    ) -> Callable[..., Any]:
        """The backend's callable for a graph."""
        logs.emit("graph", lambda: log_texts.graph_table(gm.graph, name))
        logs.emit("graph_code", lambda: log_texts.graph_code(gm.graph, name))
        logs.emit("graph_sizes", lambda: log_texts.graph_sizes(gm.graph, name))
        counters["stats"]["unique_graphs"] += 1
        counters["stats"]["calls_captured"] += sum(node.op.startswith("call_") for node in gm.graph.nodes)
        if self.on_graph is not None:
            self.on_graph(gm, self.compiler_fn.examples(inputs))
        started = time.perf_counter()
        if self.compiler_fn.runs_as_written:
            compiled = self.compiler_fn.compile_graph(gm, inputs)
        else:
            compiled = limit.run(lambda: self.compiler_fn.compile_graph(gm, inputs))
        gm.meta["backend_seconds"] = time.perf_counter() - started
        return unhooked(compiled) if calls_back else compiled

    # -- entries -----------------------------------------------------------------------------------------------------

    def _entry(
        self,
        function: types.FunctionType,
        args: tuple[Any, ...],
        trace: Trace,
        output: OutputCode | None,
        snapshot: Any,
        gm: Any,
        graph_name: str | None,
    ) -> _C.Entry:
        env = trace.output.world.env
        if env.symbols():
            logs.emit("dynamic", lambda: log_texts.shapes(env.symbols(), env.guards))
        env.check_constraints()
        shape_texts = env.produce_guards(prune=config.prune_guards)
        all_guards = guards_of(trace, function.__code__, snapshot, shape_texts)
        fetched = () if output is None else output.fetched
        manager = guards.CheckFunctionManager(
            all_guards, function.__code__, function.__globals__, fetched=fetched
        )
        guarded = GuardedCode(
            None if output is None else output.code,
            manager,
            gm,
            graph_name,
            emission.record(env, shape_texts),
            broken=trace.break_at is not None,
        )
        logs.emit("guards", lambda: log_texts.guards_text(manager))
        self._check_holds(function, args, guarded)
        entry = make_entry(
            self,
            function,
            guarded,
            {} if output is None else output.extras,
            output is None or output.calls_back,
            fetches=bool(fetched),
        )
        reference = weakref.ref(entry)
        manager.when_invalid(functools.partial(_invalidate, reference))  # needs no globals when Python shuts down
        if self.on_guards is not None:
            self.on_guards(manager)
        if self.guard_export_fn is not None:
            self.guard_export_fn(manager.guards)
        return entry

    def _check_holds(self, function: types.FunctionType, args: tuple[Any, ...], guarded: GuardedCode) -> None:
        """The guards of a trace must hold for the very call that was traced."""
        positional = (*args, function.__closure__) if function.__code__.co_freevars else args
        if not guarded.manager.holds(guarded.check_fn(*positional)):
            failure = guarded.manager.explain(args, function.__closure__)
            raise errors.InternalTracerError(
                f"the guards of {function.__qualname__} do not hold for the call that they were made from: {failure}"
            )

    def _make_resume(self, code: types.CodeType, globals_: dict[str, Any]) -> _C.Dispatcher:
        known = self.resumes.get((id(code), id(globals_)))
        if known is not None:
            return known
        closure = tuple(types.CellType() for _ in code.co_freevars) or None
        function = types.FunctionType(code, globals_, code.co_name, None, closure)
        function.__qualname__ = code.co_qualname
        self.add_root(code)
        dispatcher = self.resumes[id(code), id(globals_)] = _C.Dispatcher(self.region, function, RESUME_LIMIT)
        return dispatcher

    def _given_up(self, function: types.FunctionType, gave_up: GaveUp) -> Any:
        code = function.__code__
        log.debug("%s is left to CPython: %s", code.co_qualname, gave_up.reason)
        self.happened("skip", function, str(gave_up.reason or ""), error=gave_up.reason)
        return _C.SKIP


def _outlive_no_loop(trace: Trace) -> None:
    """A generator that a loop draws from is closed where the loop ends. Rebuilt and handed to a resume function, it would live
    as long as the caller of that does: where that could be seen, it is not rebuilt."""
    frames = [] if trace.frame is None else trace.frame.frames()
    todo = [value for frame in frames for value in frame.stack]
    seen: set[int] = set()
    while todo:
        value = todo.pop()
        if isinstance(value, IteratorVariable) and id(value) not in seen:
            seen.add(id(value))  # a generator may hold itself
            todo += [part for part in value.children() if isinstance(part, IteratorVariable)]
            if isinstance(value, GeneratorVariable):
                value.rebuilt = False


def code_name(frame: InstructionTranslator | None) -> str:
    return "a frame" if frame is None else frame.code.co_qualname


def _half_way_out(trace: Trace) -> Trace:
    """The trace as seen from the middle of its open frames: so deep, the stack of the tracer itself is used up."""
    if trace.frame is not None:
        frames = trace.frame.frames()
        trace.frame = frames[len(frames) // 2]
        trace.steps = trace.frame.step
    return trace


def _callback_of(state: RegionState) -> Callable[..., Any]:
    """Holds the state: whoever holds the region (a decorated object) keeps it alive."""

    def on_miss(region: _C.Region, function: types.FunctionType, args: tuple[Any, ...]) -> Any:
        if state.at_miss is not None and id(function.__code__) not in state.roots:
            return None  # a callee of a missed call that runs uncompiled: there are hundreds in a model, none is traced
        return _beside_dynamo(state.on_miss)(function, args)

    return on_miss


def _beside_dynamo(method: Callable[..., Any]) -> Callable[..., Any]:
    """Where torch.compile was used, it is not to trace the tracer."""
    return torch.compiler.disable(method) if "torch._dynamo" in sys.modules else method


def root_frame(trace: Trace, function: types.FunctionType, args: tuple[Any, ...]) -> InstructionTranslator:
    """The translator of the frame itself: arguments are wrapped when they are first read."""
    code = function.__code__
    slots = guards.argument_slots(code)
    trace.builder.arguments = args
    locals_: dict[str, Any] = {name: Unwrapped(value, LocalSource(name)) for name, value in zip(slots, args)}
    cells: dict[str, CellVariable] = {}
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        source = CellSource(name)
        cells[name] = trace.builder.remember(cell, cell_of(cell, source))
    for name in code.co_cellvars:
        cells[name] = CellVariable(locals_.pop(name, None))
    return InstructionTranslator(trace, code, function.__globals__, locals_, cells)


def unhooked(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled graph called from code that runs with the hook on: the frames of the graph are not to be traced."""

    def run_graph(*args: Any) -> Any:
        region = _C.swap_active(None)
        try:
            return compiled(*args)
        finally:
            _C.swap_active(region)

    _C.never_trace(run_graph.__code__)
    return run_graph


def _name_resume(offset: int) -> str:
    return f"__resume_at_{offset}_{next(_resume_ids)}"


def _invalidate(reference: weakref.ref[_C.Entry]) -> None:
    entry = reference()
    if entry is not None:
        entry.valid = False


def _changed(trace: Trace) -> list[str]:
    """What existed before the frame ran and is changed by it, by name."""
    changed = [
        target.source.name
        for target in trace.effects.mutated
        if target.source is not None and not (isinstance(target, DictVariable) and not any(True for _ in target.replayed()))
    ]
    return changed + [f"the global {name}" for _, name, _ in trace.effects.stored_globals()]
