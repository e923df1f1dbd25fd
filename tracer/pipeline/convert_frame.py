"""From a frame that no entry serves to a new entry: trace, compile the graph, emit code, build `check_fn`."""

from __future__ import annotations

import contextlib
import itertools
import sys
import time
import types
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from shapes import emission
from tracer import _C, config, errors, logs, monitoring, profile_labels
from tracer.bytecode import is_resume_code, loop_resumed_in, resumes_at
from tracer.codegen.output_code import OutputCode, OutputCodeBuilder
from tracer.effects import fake_modes
from tracer.effects.dual_levels import refuse_open_level
from tracer.effects.function_modes import function_modes, taken_off
from tracer.effects.torch_state import on_plain_tensors, restoring_state
from tracer.graph.attempt import AttemptOptions
from tracer.graph.fakes.fake_tensors import FakeWorld
from tracer.graph.graph_module import build_graph_module
from tracer.graph.operations.streams import is_opening, leaving_what_is_open
from tracer.graph.stream_lifetimes import keep_what_streams_share
from tracer.graph_breaks import unsupported
from tracer.guards.code import fetchable
from tracer.guards.identity import TypeMatch
from tracer.guards.manager import CheckFunctionManager
from tracer.interpreter.trace import BreakHere, Trace
from tracer.interpreter.translator import InstructionTranslator
from tracer.metrics import counters
from tracer.pipeline import known_graphs, outdated
from tracer.pipeline.break_placement import BreakPlacement
from tracer.pipeline.root_frame import root_frame
from tracer.pipeline.trace_guards import guards_of
from tracer.pipeline.traced_call import StaleGuards, TracedCall
from tracer.protocol.lookups import recorded
from tracer.protocol.variable import ObservedException
from tracer.runtime import agreement, log_texts, stances, upkeep
from tracer.runtime.collector import collecting_as_before
from tracer.runtime.frame_state import DynamismPolicy
from tracer.runtime.guarded_code import GuardedCode, entries_of, make_entry
from tracer.runtime.time_limit import TimeLimit
from tracer.sources.roots import FunctionModeSource
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.functions.python_functions import instead_of
from tracer.variables.iteration import IteratorVariable
from tracer.variables.iterators.generators import GeneratorVariable

if TYPE_CHECKING:
    from tracer.runtime.region_state import RegionState

_MAX_ATTEMPTS = 40
_READ_DATA = {"tensor-item", "data-dependent-method"}  # breaks at what reads numbers out of a tensor
_graph_ids = itertools.count()
_resume_ids = itertools.count(1)


def convert_frame(
    region: RegionState, function: types.FunctionType, args: tuple[Any, ...], snapshot: _C.GlobalState, limit: TimeLimit
) -> Any:
    """The entry for one call of a function; SKIP where CPython runs it. Raises `errors.LeftToCPython` if it cannot be traced."""
    with profile_labels.of_trace():
        return FrameConversion(region, function, args, snapshot, limit).entry()


class FrameConversion:
    """Makes the entry for one call that no entry serves. `_trace_until_complete` is the loop over attempts, `_finish` the steps
    after a trace that reached the end of the frame or a break."""

    def __init__(
        self, region: RegionState, function: types.FunctionType, args: tuple[Any, ...], snapshot: _C.GlobalState, limit: TimeLimit
    ) -> None:
        self.region, self.function, self.args = region, function, args
        self.modes = function_modes()
        self.fake_mode = fake_modes.fake_mode()
        self.call = TracedCall(function, args, self.modes, self.fake_mode)
        self.snapshot = snapshot  # torch's global state before the trace
        self.limit = limit
        self.declared = region.declared_shapes(function, args)
        self.state = region.frame_state(function)
        self.history = self.state.history
        self.history.begin()
        self.backends_callable: Any = None  # see GuardedCode
        self.placement: BreakPlacement  # of the attempts that are being made

    def entry(self) -> Any:
        """Traces and makes the entry; a second time if another thread or a finalizer has changed what the guards read."""
        with fake_modes.without(self.fake_mode):
            return self._entry_under_modes()

    def _entry_under_modes(self) -> Any:
        if not self.modes:
            return self._entry()
        with taken_off(self.modes):
            if not is_resume_code(self.function.__code__):  # those begin within a mode that they are to leave
                with contextlib.suppress(errors.LeftToCPython):
                    return self._entry()
            return self._make_entry(self._new_trace(AttemptOptions(), None), None, None, None)  # for calls under such modes

    def _entry(self) -> Any:
        try:
            return self._trace_until_complete(replays=config.replay and config.guard_nn_modules)
        except StaleGuards as stale:
            logs.emit("replay", f"GIVEN UP: {stale}")
        try:
            return self._trace_until_complete(replays=False)
        except StaleGuards as stale:
            if len(sys._current_frames()) > 1:
                raise errors.NotNow("another thread changes what the guards read") from None
            raise errors.InternalTracerError(str(stale)) from None

    def _trace_until_complete(self, replays: bool) -> Any:
        """Traces until the frame ends or an attempt stops at a break that is known from the attempt before. `replays`: modules
        like one traced before are not traced again."""
        self.placement = placement = BreakPlacement(self.region, self._was_offered_by_hook(), bool(self.modes))
        backend = self.region.backend
        options = AttemptOptions(
            runs_as_written=backend.runs_as_written,
            loops_carry_only_tensors=backend.loops_carry_only_tensors,
            replays=replays,
        )
        for _ in range(_MAX_ATTEMPTS):
            trace = self._new_trace(options, placement.step)
            root = root_frame(trace, self.function, self.args)
            try:
                with recorded(trace.findings):
                    trace.overrides.begin([root.wrap(mode, FunctionModeSource(place)) for place, mode in enumerate(self.modes)])
                    builder = OutputCodeBuilder(trace, root, self._make_resume, _name_resume, *self._described())
                    with trace.torch_state.scope():
                        body = self._run(trace, root, builder)
                    if self._ranks_want_another():
                        continue
                    entry = self._finish(trace, builder, body)
                if entry is not _C.SKIP and entry.guarded_code.broken:
                    entry.guarded_code.reason = str(placement.reason or "")
                if entry is not _C.SKIP:
                    entry.guarded_code.described = builder.described
                    if trace.lines and entry.code is not None:
                        monitoring.tell(trace.lines)
                return entry
            except errors.TraceAnew as retry:
                options = options.after(retry)
                continue
            except errors.Unsupported as error:
                placement.move(trace, error)
            except RecursionError:
                placement.move_out_of_depth(trace)
            finally:
                trace.close(root)
        raise errors.LeftToCPython(placement.reason)

    def _ranks_want_another(self) -> bool:
        """Whether other ranks of the program see sizes for which this trace is not the right one. They are asked once."""
        meeting = agreement.meeting_about(self.function.__code__)
        if meeting is None:
            return False
        with self.limit.paused():
            return meeting.exchange(self.history)

    def _make_resume(
        self, code: types.CodeType, globals_: dict[str, Any], innermost: bool, inlined: bool, results: tuple[str, ...]
    ) -> _C.Dispatcher:
        in_cpython = innermost and self.placement.is_before_loop
        returns = inlined or self.function.__code__ in self.region.returning_codes
        reason = self.placement.reason
        if innermost and reason is not None and reason.id in _READ_DATA:
            self.region.state_of(code, globals_).from_data = results
        return self.region.make_resume(code, globals_, runs_in_cpython=in_cpython, returns=returns)

    def _described(self) -> tuple[bool, bool]:
        """Whether what is handed over at a break, and what the frame returns, is described: certificates of declared shapes need
        that."""
        declared = self.region.shapes is not None
        return declared, declared and self.function.__code__ in self.region.returning_codes

    def _new_trace(self, options: AttemptOptions, break_at: int | None) -> Trace:
        declared = self.declared
        current: weakref.ref[Trace]  # weak, because the graph's fake tensors keep the world alive after the trace

        def where() -> Any:
            trace = current()
            return None if trace is None else trace.location()

        always = declared is None and config.specialize_zero_one == "always"
        places = frozenset() if declared is None else declared.domain.places
        code = self.function.__code__
        resumed = loop_resumed_in(code), resumes_at(code) is not None
        policy = DynamismPolicy(
            self.history, self.region.dynamic_of(declared), places, self.state.classes, *resumed, self.state.from_data
        )
        world = FakeWorld(
            asks_layout=options.asks_layout,
            duck_shape=config.duck_shape,
            specialize_zero_one=always,
            where=where,
            past=self.state.past,
            under_fake_mode=self.fake_mode is not None,
        )
        trace = Trace(policy, world, options, break_at, self.limit.check)
        current = weakref.ref(trace)
        if declared is not None:
            trace.output.declare_sizes(declared.domain, declared.sizes())
            for each in declared.ints.values():
                trace.guard(TypeMatch(each.source, int))
        return trace

    def _run(self, trace: Trace, root: InstructionTranslator, builder: OutputCodeBuilder) -> Any:
        """The body of the output code; None if the frame raises, so that CPython has to run it."""
        try:
            result = root.run()
            refuse_open_level(trace)
            body = builder.returning(result)
        except BreakHere as at:
            trace.enter(at.frame)
            if (calls_instead := self.placement.calls_instead) is not None:
                at.frame.stack[:] = [instead_of(value, *calls_instead) for value in at.frame.stack]
            trace.settings.go_on_behind(trace.effects)
            for guard in self.placement.relies_on:
                trace.guard(guard)
            body = builder.breaking(at.frame, runs_instruction=not self.placement.is_before_loop)
        except ObservedException as raised:
            errors.forget_frames(raised)
            return None
        return body

    def _finish(self, trace: Trace, builder: OutputCodeBuilder, body: Any) -> Any:
        function = self.function
        self.limit.check()
        if body is None:
            return self._make_entry(trace, None, None, None)
        trace.refuse_late_changes()
        trace.hashed.ask_again(builder.root)
        nodes = builder.learn_outputs(body)
        _treat_loop_generators_as_abandoned(trace)
        if trace.abandons_generator() is not None:  # `learn_outputs` has rebuilt those that outlive the frame
            unsupported("abandoned-generator", value="suspended in a try or with block")
        output = trace.output
        keep_what_streams_share(output)
        output.graph.output(tuple(nodes))
        output.resized_leaves.remove()
        output.remove_dead_nodes()
        inputs = output.remove_unused_inputs()
        trace.refuse_results(nodes, inputs)
        broken = trace.break_at is not None
        if self.region.on_inputs is not None:
            self.region.on_inputs([item.source.name for item in inputs], _changed_objects(trace))
        if output.operation_count() == 0 and not broken and not config.convert_every_frame:
            return self._without_operations(trace)
        if output.operation_count() == 1 and not broken and self._is_method_of_torch_module():
            return self._make_entry(trace, None, None, None)
        graph_name, compiled, gm = None, None, None
        if output.operation_count() or nodes:
            output.world.env.check_constraints()  # raises before the backend compiles a graph that contradicts a mark
            graph_name = f"__compiled_fn_{next(_graph_ids)}"
            gm = build_graph_module(output, graph_name)
            compiled = self._compile(trace, gm, graph_name, inputs)
            if trace.torch_state.in_graph():
                compiled = restoring_state(compiled)
            if any(map(is_opening, output.graph.nodes)):
                compiled = leaving_what_is_open(compiled)
            if trace.overrides.met_subclass:
                compiled = on_plain_tensors(compiled)
        fetched = fetchable(trace.output.guards, [item.source for item in inputs], function.__code__, function.__globals__)
        result = builder.build(body, graph_name, compiled, inputs, fetched if compiled is not None else ())
        if trace.effects or trace.effects.draws:
            logs.emit("side_effects", lambda: log_texts.side_effects(function.__code__, trace.effects.descriptions()))
        logs.emit("bytecode", lambda: log_texts.bytecode("ORIGINAL BYTECODE", function.__code__))
        logs.emit("bytecode", lambda: log_texts.bytecode("MODIFIED BYTECODE", result.code))
        return self._make_entry(trace, result, gm, graph_name)

    def _without_operations(self, trace: Trace) -> Any:
        """The entry for a frame whose graph is empty: CPython runs it. SKIP if it has no tensor inputs either."""
        if not trace.input_tensors and self._was_offered_by_hook():
            return _C.SKIP
        return self._make_entry(trace, None, None, None)

    def _is_method_of_torch_module(self) -> bool:
        """Whether CPython called a method of one of torch's own modules, such as Linear.forward. A graph of a single operation is
        no faster than the operation itself, so such a frame is left to CPython."""
        module = self.function.__globals__.get("__name__")
        return self._was_offered_by_hook() and isinstance(module, str) and module.startswith("torch.nn.")

    def _was_offered_by_hook(self) -> bool:
        """Whether the function is no decorated one: CPython called it, and the frame hook offered the frame."""
        return self.function.__code__ not in self.region.roots

    def _compile(self, trace: Trace, gm: torch.fx.GraphModule, name: str, inputs: list[Any]) -> Callable[..., Any]:
        """The callable for a graph: the backend's, or what the backend has made of the same graph before."""
        entries = [
            entry.guarded_code for entry in entries_of(self.region.region, self.function.__code__, self.function.__globals__)
        ]
        serves_one_call = self._serves_one_call(trace)
        as_written = trace.output.world.program_fakes.met or self.placement.as_written or serves_one_call
        compiled = None if as_written else known_graphs.callable_for(gm, trace, self.function, self.snapshot, entries)
        if compiled is None:
            try:
                compiled = self._call_backend(gm, name, inputs, as_written)
            except errors.BackendCompilerFailed as failure:
                if (anew := _without_what_fails(trace, failure)) is None:
                    raise
                raise anew from None
        may_come_again = not as_written and not self.region.backend.needs_real_inputs and known_graphs.outdates_itself(trace)
        self.backends_callable = compiled if may_come_again else None
        if serves_one_call:
            compiled = outdated.UntilItComesAgain(compiled, self._comes_again(gm))
        return without_hook(compiled) if trace.break_at is not None else compiled

    def _serves_one_call(self, trace: Trace) -> bool:
        """Whether to leave the graph as it is written, because the entry will not be hit again. Not where gradients are off: a
        state may come back with the next request, which is not to wait for a compile. What is compiled for other processes, or
        because somebody looks at the graph, is compiled at once, too."""
        backend = self.region.backend
        if backend.runs_as_written or not backend.is_built_in or self.state.comes_again or not torch.is_grad_enabled():
            return False
        if config.cache_dir or self.region.on_graph is not None or self.declared is not None:
            return False
        return outdated.outdates_itself(trace, self.function.__globals__)

    def _comes_again(self, gm: torch.fx.GraphModule) -> Callable[[], None]:
        """What to do if the entry of this graph is called a second time: the next call compiles one in its place."""
        owner, state, code, globals_ = weakref.ref(self.region), self.state, self.function.__code__, self.function.__globals__

        def evict_and_compile() -> None:
            state.comes_again = True
            if (region := owner()) is None:
                return
            for entry in entries_of(region.region, code, globals_):
                if entry.valid and entry.guarded_code.graph is gm:
                    upkeep.evict(region, entry, "returned")

        return evict_and_compile

    def _call_backend(self, gm: torch.fx.GraphModule, name: str, inputs: list[Any], as_written: bool) -> Callable[..., Any]:
        """`as_written`: the graph works on fake tensors of the program, or autograd has to go through its inside."""
        logs.emit("graph", lambda: log_texts.graph_table(gm.graph, name))
        logs.emit("graph_code", lambda: log_texts.graph_code(gm.graph, name))
        logs.emit("graph_sizes", lambda: log_texts.graph_sizes(gm.graph, name))
        counters["stats"]["unique_graphs"] += 1
        counters["stats"]["calls_captured"] += sum(node.op.startswith("call_") for node in gm.graph.nodes)
        if self.region.on_graph is not None:
            self.region.on_graph(gm, self.region.backend.examples(inputs))
        started = time.perf_counter()
        backend = self.region.backend
        with profile_labels.of_compile():
            if as_written:
                compiled = self.limit.run(lambda: backend.leave_as_written(gm, inputs))
            elif backend.runs_as_written:
                compiled = backend.compile_graph(gm, inputs)
            else:
                with collecting_as_before():
                    compiled = self.limit.run(lambda: backend.compile_graph(gm, inputs))
        gm.meta["backend_seconds"] = time.perf_counter() - started
        return compiled

    # -- guards ------------------------------------------------------------------------------------------------------

    def _make_entry(self, trace: Trace, output: OutputCode | None, gm: Any, graph_name: str | None) -> _C.Entry:
        """The entry: `check_fn`, and the output code, or None for the original code."""
        function = self.function
        env = trace.output.world.env
        if env.symbols():
            logs.emit("dynamic", lambda: log_texts.shapes(env.symbols(), env.guards))
        env.check_constraints()
        shape_texts = env.produce_guards(prune=config.prune_guards)
        all_guards = self.call.kept(guards_of(trace, function.__code__, self.snapshot, shape_texts), self.region.guard_filter_fn)
        fetched = () if output is None else output.fetched
        manager = CheckFunctionManager(all_guards, function.__code__, function.__globals__, fetched=fetched)
        guarded = GuardedCode(
            None if output is None else output.code,
            manager,
            gm,
            graph_name,
            emission.record(env, shape_texts),
            broken=trace.break_at is not None,
            direct=None if output is None else output.direct,
            backends_callable=self.backends_callable,
            forced_by=stances.forced(),
        )
        logs.emit("guards", lambda: log_texts.guards_text(manager))
        self.call.check_holds(guarded)
        extras = {} if output is None else output.extras
        entry = make_entry(self.region, function, guarded, extras, output is None or output.calls_back, fetches=bool(fetched))
        if self.region.on_guards is not None:
            self.region.on_guards(manager)
        if self.region.guard_export_fn is not None:
            self.region.guard_export_fn(manager.guards)
        return entry


def _without_what_fails(trace: Trace, failure: errors.BackendCompilerFailed) -> errors.TraceAnew | None:
    """The next trace, without the operations that the backend may have failed at; None where there are none that could break."""
    if trace.output.chances.taken:
        return errors.TraceAnew(careful=True)
    if trace.output.world.fake_mode.met_wrapper and not trace.options.refuses_wrappers:
        why = str(failure.inner_exception or failure).strip().partition("\n")[0]
        return errors.TraceAnew(refuses_wrappers=f"the backend fails ({why})")
    return None


def _treat_loop_generators_as_abandoned(trace: Trace) -> None:
    """Treats the generators that loops are drawing from as abandoned, though the output code rebuilds them. A loop drops its
    generator when it ends, which closes it. Passed to a resume function, it would be closed only when the caller returns."""
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


def without_hook(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """Switches the frame hook off around a compiled graph that is called by code which runs with the hook on."""

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


def _changed_objects(trace: Trace) -> list[str]:
    """The names of the objects that existed before the frame ran and that it changes."""
    changed = [
        target.source.name
        for target in trace.effects.mutated
        if target.source is not None and not (isinstance(target, DictVariable) and not any(True for _ in target.replayed()))
    ]
    return changed + [f"the global {name}" for _, name, _ in trace.effects.stored_globals()]
