"""From a frame that no entry serves to a new entry: trace, compile the graph, emit code, build `check_fn`."""

from __future__ import annotations

import itertools
import sys
import time
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from shapes import emission
from tracer import _C, config, errors, graph_breaks, guards, logs, metrics
from tracer.codegen.output_code import OutputCode, OutputCodeBuilder
from tracer.effects.torch_state import plainly, restoring
from tracer.graph.fakes.fake_tensors import FakeWorld
from tracer.graph.graph_module import build_graph_module
from tracer.graph_breaks import unsupported
from tracer.interpreter.loops import step_before_loop, step_of_first_call
from tracer.interpreter.trace import BreakHere, Trace
from tracer.interpreter.translator import InstructionTranslator
from tracer.metrics import counters
from tracer.pipeline.trace_guards import guards_of
from tracer.protocol.lazy import Unwrapped
from tracer.protocol.lookups import recorded
from tracer.protocol.variable import ObservedException
from tracer.runtime import log_texts
from tracer.runtime.frame_state import DynamismPolicy
from tracer.runtime.guarded_code import GuardedCode, make_entry
from tracer.runtime.time_limit import TimeLimit
from tracer.sources import CellSource, LocalSource
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.functions.python_functions import CellVariable, cell_of, instead_of
from tracer.variables.iteration import IteratorVariable
from tracer.variables.iterators.generators import GeneratorVariable

if TYPE_CHECKING:
    from tracer.runtime.region_state import RegionState

_MAX_ATTEMPTS = 40
_graph_ids = itertools.count()
_resume_ids = itertools.count(1)


class _Stale(Exception):
    """The guards of a trace do not hold for the very call that was traced."""


def convert_frame(
    region: RegionState, function: types.FunctionType, args: tuple[Any, ...], snapshot: _C.GlobalState, limit: TimeLimit
) -> Any:
    """The entry for one call of a function; SKIP where CPython runs it. Raises `errors.LeftToCPython` if it cannot be traced."""
    return FrameConversion(region, function, args, snapshot, limit).entry()


class FrameConversion:
    """One call that no entry serves, on its way to an entry. Read `entry` as the table of contents; each step lives in the room
    that its import names."""

    def __init__(
        self, region: RegionState, function: types.FunctionType, args: tuple[Any, ...], snapshot: _C.GlobalState, limit: TimeLimit
    ) -> None:
        self.region, self.function, self.args = region, function, args
        self.snapshot = snapshot  # of what is set for the whole process, before anything was traced
        self.limit = limit
        self.calls_instead: tuple[Any, Any] | None = None  # at the break, of what looks at its callers
        self.relies_on: tuple[Any, ...] = ()  # the guards of the break
        self.declared = region.declared_shapes(function, args)
        self.state = region.frame_state(function)
        self.history = self.state.history
        self.history.begin()
        self._before_loop: int | None = None  # the step at which a loop begins that is left to CPython
        self._leaves_loops = True

    def entry(self) -> Any:
        """Traces and makes the entry, once more if something moved meanwhile: another thread, a finalizer."""
        try:
            return self._entry()
        except _Stale:
            pass
        try:
            return self._entry()
        except _Stale as stale:
            if len(sys._current_frames()) > 1:
                raise errors.NotNow("another thread changes what the guards read") from None
            raise errors.InternalTracerError(str(stale)) from None

    def _entry(self) -> Any:
        """Traces up to the first break, again with the place known for each break met, and makes the entry."""
        break_at: int | None = None
        reason: errors.Unsupported | None = None
        keeps_branches, asks_layout, holds_leaves = True, False, False
        for _ in range(_MAX_ATTEMPTS):
            trace = self._new_trace(break_at)
            trace.keeps_branches = keeps_branches
            trace.output.world.fake_mode.asks_layout = asks_layout
            if holds_leaves:
                trace.hold_leaves()
            root = root_frame(trace, self.function, self.args)
            try:
                with recorded(trace.findings):
                    builder = OutputCodeBuilder(trace, root, self._make_resume, _name_resume)
                    with trace.torch_state.scope():
                        body = self._run(trace, root, builder)
                    entry = self._finish(trace, builder, body)
                if entry is not _C.SKIP and entry.guarded_code.broken:
                    entry.guarded_code.reason = "" if reason is None else str(reason)
                return entry
            except errors.TraceAnew as anew:
                keeps_branches &= anew.asks_layout or anew.holds_leaves
                asks_layout |= anew.asks_layout
                holds_leaves |= anew.holds_leaves
                continue
            except errors.Unsupported as error:
                break_at = self._next_break(trace, error, break_at)
                at_fault = trace.frame is not None and trace.frame.step == break_at
                self.calls_instead = error.calls_instead if at_fault else None
                self.relies_on = error.relies_on if at_fault else ()
                reason = error
            except RecursionError:
                reason = errors.Unsupported(graph_breaks.reason("inline-depth"), {"function": code_name(trace.frame)})
                break_at = self._next_break(_half_way_out(trace), reason, break_at)
            finally:
                trace.close(root)
            errors.forget_frames(reason)  # which leads back to this frame, and so to what the program hands over
        raise errors.LeftToCPython(reason)

    def _make_resume(self, code: types.CodeType, globals_: dict[str, Any], innermost: bool) -> _C.Dispatcher:
        return self.region.make_resume(code, globals_, runs_in_cpython=innermost and self._before_loop is not None)

    def _new_trace(self, break_at: int | None) -> Trace:
        declared = self.declared
        current: weakref.ref[Trace]  # the world outlives the trace, in the graph's fake tensors

        def where() -> Any:
            trace = current()
            return None if trace is None else trace.location()

        always = config.specialize_zero_one == "always"
        places = frozenset() if declared is None else declared.domain.places
        policy = DynamismPolicy(self.history, self.region.dynamic, places, self.state.classes)
        world = FakeWorld(duck_shape=config.duck_shape, specialize_zero_one=always, where=where, past=self.state.past)
        trace = Trace(policy, world, break_at, runs_as_written=self.region.compiler_fn.runs_as_written)
        current = weakref.ref(trace)
        trace.output.check_time = self.limit.check
        trace.output.loops_carry_only_tensors = self.region.compiler_fn.loops_carry_only_tensors
        if declared is not None:
            trace.output.declare_sizes(declared.domain, declared.sizes())
            for each in declared.ints.values():
                trace.guard(guards.TypeMatch(each.source, int))
        return trace

    def _run(self, trace: Trace, root: InstructionTranslator, builder: OutputCodeBuilder) -> Any:
        """The body of the output code; None where the frame raises, so that CPython has to run it."""
        try:
            body = builder.returning(root.run())
        except BreakHere as at:
            trace.frame = at.frame
            if self.calls_instead is not None:
                at.frame.stack[:] = [instead_of(value, *self.calls_instead) for value in at.frame.stack]
            for guard in self.relies_on:
                trace.guard(guard)
            body = builder.breaking(at.frame)
        except ObservedException as raised:
            errors.forget_frames(raised)
            return None
        return body

    def _next_break(self, trace: Trace, error: errors.Unsupported, break_at: int | None) -> int | None:
        """The step to break at because of `error`; a break that was tried already moves out to the caller."""
        error.at(trace.user_stack())
        if self._before_loop is not None:  # there is no way to begin the loop
            self._before_loop, self._leaves_loops = None, False
            return None
        if self._leaves_loops and not self.region.fullgraph and error.break_step is None:
            self._before_loop = step_before_loop(trace.frame)
            if self._before_loop is not None:
                self._note_break(error, trace)
                return self._before_loop
            first_call = step_of_first_call(trace.frame) if self._is_offered() else None
            if first_call is not None and first_call != break_at:
                self._note_break(error, trace)
                return first_call
        step = None
        if not self.region.fullgraph:
            step = trace.abandons_generator() if error.id == "abandoned-generator" else error.break_step
        if step == 0:
            raise errors.LeftToCPython(error)
        if step is not None and step != break_at:
            self._note_break(error, trace)
            return step
        frame = trace.frame
        if frame is None or self.region.fullgraph:
            if self.region.fullgraph:
                raise error
            raise errors.LeftToCPython(error)
        if trace.steps != break_at:
            self._note_break(error, trace)
            if error.id == "frame-introspection":  # locals() must see the frame itself, not code that stands in for it
                if frame.parent is None:
                    raise errors.LeftToCPython(error)
                return frame.parent.break_step()
            return frame.break_step()
        if frame.parent is None:
            raise errors.LeftToCPython(error)
        return frame.parent.step

    def _note_break(self, error: errors.Unsupported, trace: Trace) -> None:
        self.region.stats["break"] += 1
        if metrics.listeners:
            code = None if trace.frame is None else trace.frame.frames()[0].code
            about = {"state": self.region, "code": code, "error": error}
            metrics.notify(metrics.Event("break", self.region.name, str(error.where or ""), str(error), 0.0, about))
        counters["graph_break"][error.id] += 1
        logs.emit("graph_breaks", lambda: log_texts.graph_break(error))
        if self.region.on_break is not None:
            self.region.on_break(error)

    def _finish(self, trace: Trace, builder: OutputCodeBuilder, body: Any) -> Any:
        function = self.function
        self.limit.check()
        if body is None:
            return self._guarded(trace, None, None, None)
        trace.refuse_late_changes()
        trace.hashed.ask_again(builder.root)
        nodes = builder.learn_outputs(body)
        _outlive_no_loop(trace)
        if trace.abandons_generator() is not None:  # one that is alive afterwards was rebuilt by now
            unsupported("abandoned-generator", value="suspended in a try or with block")
        output = trace.output
        output.graph.output(tuple(nodes))
        output.remove_dead_nodes()
        inputs = output.remove_unused_inputs()
        trace.refuse_results(nodes, inputs)
        broken = trace.break_at is not None
        if self.region.on_inputs is not None:
            self.region.on_inputs([item.source.name for item in inputs], _changed(trace))
        if output.operation_count() == 0 and not broken and not config.convert_every_frame:
            return self._without_operations(trace)
        if output.operation_count() == 1 and not broken and self._is_layer_of_torch():
            return self._guarded(trace, None, None, None)
        graph_name, compiled, gm = None, None, None
        if output.operation_count() or nodes:
            output.world.env.check_constraints()  # no backend is asked for a graph that contradicts the user
            graph_name = f"__compiled_fn_{next(_graph_ids)}"
            gm = build_graph_module(output, graph_name)
            compiled = self._compile(gm, graph_name, inputs, calls_back=broken)
            if trace.torch_state.in_graph():
                compiled = restoring(compiled)
            if trace.overrides.met_subclass:
                compiled = plainly(compiled)
        fetched = guards.fetchable(trace.output.guards, [item.source for item in inputs], function.__code__, function.__globals__)
        result = builder.build(body, graph_name, compiled, inputs, fetched if compiled is not None else ())
        logs.emit("bytecode", lambda: log_texts.bytecode("ORIGINAL BYTECODE", function.__code__))
        logs.emit("bytecode", lambda: log_texts.bytecode("MODIFIED BYTECODE", result.code))
        return self._guarded(trace, result, gm, graph_name)

    def _without_operations(self, trace: Trace) -> Any:
        """A frame that gave no operation is left to CPython: for good if it has nothing to do with tensors."""
        if not trace.input_tensors and self._is_offered():
            return _C.SKIP
        return self._guarded(trace, None, None, None)

    def _is_layer_of_torch(self) -> bool:
        """Whether this is a method of one of torch's own modules, which CPython has called: of a single operation a graph has
        nothing to make better."""
        module = self.function.__globals__.get("__name__")
        return self._is_offered() and isinstance(module, str) and module.startswith("torch.nn.")

    def _is_offered(self) -> bool:
        """Whether CPython called this function, and the hook offered the frame."""
        return self.function.__code__ not in self.region.roots

    def _compile(self, gm: torch.fx.GraphModule, name: str, inputs: list[Any], calls_back: bool) -> Callable[..., Any]:
        """The backend's callable for a graph."""
        logs.emit("graph", lambda: log_texts.graph_table(gm.graph, name))
        logs.emit("graph_code", lambda: log_texts.graph_code(gm.graph, name))
        logs.emit("graph_sizes", lambda: log_texts.graph_sizes(gm.graph, name))
        counters["stats"]["unique_graphs"] += 1
        counters["stats"]["calls_captured"] += sum(node.op.startswith("call_") for node in gm.graph.nodes)
        if self.region.on_graph is not None:
            self.region.on_graph(gm, self.region.compiler_fn.examples(inputs))
        started = time.perf_counter()
        if self.region.compiler_fn.runs_as_written:
            compiled = self.region.compiler_fn.compile_graph(gm, inputs)
        else:
            compiled = self.limit.run(lambda: self.region.compiler_fn.compile_graph(gm, inputs))
        gm.meta["backend_seconds"] = time.perf_counter() - started
        return unhooked(compiled) if calls_back else compiled

    # -- guards ------------------------------------------------------------------------------------------------------

    def _guarded(self, trace: Trace, output: OutputCode | None, gm: Any, graph_name: str | None) -> _C.Entry:
        """The entry: output code, if there is any, behind `check_fn`."""
        function = self.function
        env = trace.output.world.env
        if env.symbols():
            logs.emit("dynamic", lambda: log_texts.shapes(env.symbols(), env.guards))
        env.check_constraints()
        shape_texts = env.produce_guards(prune=config.prune_guards)
        all_guards = guards_of(trace, function.__code__, self.snapshot, shape_texts)
        fetched = () if output is None else output.fetched
        manager = guards.CheckFunctionManager(all_guards, function.__code__, function.__globals__, fetched=fetched)
        guarded = GuardedCode(
            None if output is None else output.code,
            manager,
            gm,
            graph_name,
            emission.record(env, shape_texts),
            broken=trace.break_at is not None,
            direct=None if output is None else output.direct,
        )
        logs.emit("guards", lambda: log_texts.guards_text(manager))
        self._check_holds(guarded)
        extras = {} if output is None else output.extras
        entry = make_entry(self.region, function, guarded, extras, output is None or output.calls_back, fetches=bool(fetched))
        if self.region.on_guards is not None:
            self.region.on_guards(manager)
        if self.region.guard_export_fn is not None:
            self.region.guard_export_fn(manager.guards)
        return entry

    def _check_holds(self, guarded: GuardedCode) -> None:
        """The guards of a trace must hold for the very call that was traced."""
        function, args = self.function, self.args
        positional = (*args, function.__closure__) if function.__code__.co_freevars else args
        if not guarded.manager.holds(guarded.check_fn(*positional)):
            failure = guarded.manager.explain(args, function.__closure__)
            raise _Stale(f"the guards of {function.__qualname__} do not hold for the call that they were made from: {failure}")


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


def _changed(trace: Trace) -> list[str]:
    """What existed before the frame ran and is changed by it, by name."""
    changed = [
        target.source.name
        for target in trace.effects.mutated
        if target.source is not None and not (isinstance(target, DictVariable) and not any(True for _ in target.replayed()))
    ]
    return changed + [f"the global {name}" for _, name, _ in trace.effects.stored_globals()]
