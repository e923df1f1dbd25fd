"""The code that is cached for a frame: it calls the graph and replays the side effects; then it returns, or runs the
instruction that broke the graph and calls the resume function of each open frame."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from tracer import _C
from tracer.bytecode import DIALECT, Assembler, Label, is_resume_code
from tracer.bytecode.slots import argument_slots
from tracer.codegen.breaking import BreakEmitter, MakeResume
from tracer.codegen.cache_checks import emit_cache_calls
from tracer.codegen.codegen import Codegen, Extras
from tracer.codegen.handover import Break, Describer, Return, changed_before, ranges_of_data
from tracer.codegen.random_draws import emit_draws, emit_restore_states
from tracer.codegen.replay import replay
from tracer.codegen.tracebacks import tracebacks_hide_frame
from tracer.effects import graph_failures, heard_warnings, rollback
from tracer.effects.function_modes import call_with_overrides, call_without_overrides
from tracer.interpreter.trace import Trace
from tracer.interpreter.translator import InstructionTranslator
from tracer.protocol.lazy import Unwrapped
from tracer.protocol.variable import VariableTracker
from tracer.sources.base import Source
from tracer.sources.roots import LocalSource

if TYPE_CHECKING:
    from tracer.graph.inputs import WrittenInput
    from tracer.graph.output_graph import GraphInput

# The inputs of a graph (each the number of a slot, or -1 - i for value i that check_fn fetched), and the original code.
DirectCall = tuple[tuple[int, ...], types.CodeType]


@dataclasses.dataclass
class OutputCode:
    code: types.CodeType
    extras: dict[str, Any]
    calls_back: bool  # whether it runs code of the program, whose frames the hook must see
    fetched: tuple[Source, ...] = ()  # values that check_fn read for it; they are passed as a tuple after the arguments
    direct: DirectCall | None = None  # set if the code only calls its graph and returns the first result


@dataclasses.dataclass
class _Fallbacks:
    """Handlers that run the original code instead, if the graph or a read fails before the first side effect."""

    before_graph: Label
    after_call: Label  # for the call of the graph and the reads after it
    saved_tensors: str | None = None  # the local with the state of the tensors that the graph writes to
    random_state: str | None = None  # the local with the state of torch's generator before the graph


class OutputCodeBuilder:
    """Emits the code twice: once to learn what the graph must return, once for good."""

    def __init__(
        self,
        trace: Trace,
        root: InstructionTranslator,
        make_resume: MakeResume,
        name_resume: Callable[[int], str],
        describes: bool = False,
        describes_result: bool = False,
    ) -> None:
        """`describes`: whether what is handed to resume functions is described as data. `describes_result`: what is returned."""
        self.trace = trace
        self.root = root
        self.outputs: dict[fx.Node, int] = {}
        self.extras = Extras()
        self._original = _with_plain_arguments(root.code)
        self._breaks = BreakEmitter(self.extras, root.program.argnames, make_resume, name_resume, describes)
        self._describes_result = describes_result
        self._returned: Return | None = None
        self._late_reads: list[VariableTracker | Unwrapped] = []  # read by the body, but may be changed by the graph or effects

    def learn_outputs(self, body: Callable[[Codegen], None]) -> list[fx.Node]:
        """The nodes that the graph has to return for `body`. Found by emitting the code once and throwing it away."""
        self.trace.effects.check_replaced_globals(self.trace.builder.known)
        cg = self._codegen()
        emit_draws(cg)
        if emit_cache_calls(cg):
            cg.asm.pop()
        replay(cg, self.trace.effects)
        self.trace.torch_state.emit(cg)
        cg.read_by_source.clear()
        body(cg)
        cg.refuse_weakly_held()
        if self.trace.effects or self.trace.output.written_inputs():
            self._late_reads = list(cg.read_by_source)
        return list(self.outputs)

    def build(
        self,
        body: Callable[[Codegen], None],
        graph_name: str | None,
        graph: Any,
        inputs: list[GraphInput],
        fetched: tuple[Source, ...] = (),
    ) -> OutputCode:
        """`fetched`: the inputs that check_fn has read, so that the output code need not."""
        cg = self._codegen()
        if is_resume_code(self.root.code):
            cg.call_object(_C.let_go)
            cg.asm.pop()
        fallback = _Fallbacks(cg.asm.label(), cg.asm.label())
        drawn = emit_draws(cg)
        cg.fallback = fallback.before_graph
        if emit_cache_calls(cg):
            self._fall_back_unless_as_traced(cg, drawn)
        fetched_local = cg.asm.fresh_local("fetched") if fetched else None
        after_call = None
        if graph is not None and graph_name is not None:
            self.extras.bind(graph_name, graph)
            fetches_all = fetched == tuple([item.source for item in inputs])
            loads = {} if fetches_all else self._unpack(cg, fetched_local, fetched)
            if self.trace.output.written_inputs():
                self._save_late_reads(cg)
            self._call_graph(cg, graph_name, inputs, loads, fetched_local if fetches_all else None, fallback)
            if self.trace.effects or self.trace.break_at is not None:  # the inputs may have to die in the code that runs now
                for name in [fetched_local] if fetches_all and fetched_local else loads.values():
                    cg.asm.delete_fast(name)
            after_call = cg.asm.position()
        self._save_late_reads(cg)
        replay(cg, self.trace.effects)
        self.trace.torch_state.emit(cg)
        body(cg)
        direct = None if after_call is None or drawn else self._direct_call(cg, after_call, inputs, fetched)
        self._emit_fallbacks(cg, fallback, drawn)
        code = self.root.code
        argnames = (*self.root.program.argnames, *([fetched_local] if fetched_local else []))
        freevars = (*code.co_freevars, *self.extras.values)
        finished = cg.asm.finish(code.co_name, code.co_qualname, code.co_filename, code.co_firstlineno, argnames, freevars)
        if self.trace.overrides.at_entry:
            return OutputCode(self._without_overrides(finished, argnames), dict(self.extras.values), False, fetched)
        return OutputCode(finished, dict(self.extras.values), bool(self._breaks.resumes), fetched, direct)

    def _save_late_reads(self, cg: Codegen) -> None:
        for value in self._late_reads:
            cg.keep(value)

    def _direct_call(
        self, cg: Codegen, after_call: int, inputs: list[GraphInput], fetched: tuple[Source, ...]
    ) -> DirectCall | None:
        """The call that the code amounts to, if it does nothing but call the graph. `after_call`: the position after that
        call."""
        output = self.trace.output
        if is_resume_code(self.root.code) or output.written_inputs() or output.draws_random_numbers:
            return None
        if output.world.warns_are_heard:
            return None
        match cg.asm.since(after_call):
            case [("LOAD_FAST", cg.graph_out), ("LOAD_CONST", 0), DIALECT.subscript, *rest, ("RETURN_VALUE", _)]:
                if rest not in ([], [("COPY", 1), ("STORE_FAST", cg.own_locals[-1])]):
                    return None
            case _:
                return None
        places: list[int] = []
        fetched_places = {source: index for index, source in enumerate(fetched)}
        for item in inputs:
            if item.source in fetched_places:
                places.append(-1 - fetched_places[item.source])
            elif type(item.source) is LocalSource:
                places.append(self.root.program.argnames.index(item.source.local_name))
            else:
                return None
        return tuple(places), self._original

    def _unpack(self, cg: Codegen, name: str | None, fetched: tuple[Source, ...]) -> dict[Source, str]:
        """Unpacks the fetched values into locals: source -> local."""
        if name is None:
            return {}
        locals_ = {source: cg.asm.fresh_local("input") for source in fetched}
        cg.asm.load_fast(name)
        cg.asm.emit("UNPACK_SEQUENCE", len(fetched))
        for local in locals_.values():
            cg.asm.store_fast(local)
        cg.asm.delete_fast(name)
        return locals_

    def _call_graph(
        self,
        cg: Codegen,
        graph_name: str,
        inputs: list[GraphInput],
        fetched: dict[Source, str],
        all_fetched: str | None,
        fallback: _Fallbacks,
    ) -> None:
        """Calls the graph. `all_fetched`: the local with a tuple of all inputs, if check_fn has read all."""
        asm = cg.asm
        written = self.trace.output.written_inputs()
        if self.trace.output.draws_random_numbers:
            cg.call_object(torch.get_rng_state)
            fallback.random_state = cg.store_temporary()
        if written:
            noticed = rollback.BY_LAUNCHES if self.trace.output.runs_as_written else rollback.BY_NOTHING
            how = tuple((self._largest_copy(each), noticed if each.uncounted else rollback.BY_VERSION) for each in written)
            loads = [lambda item=each.item: cg.read(item.source) for each in written]
            cg.call_object(rollback.save, lambda: asm.load_const(how), *loads)
            fallback.saved_tensors = cg.store_temporary()
        cg.fallback = fallback.after_call
        cg.used_fallbacks.setdefault(fallback.after_call)
        token = asm.try_begin(fallback.after_call)
        if self.trace.output.world.warns_are_heard:
            load_graph = functools.partial(asm.load_deref, graph_name)
            asm.load_callee(lambda: cg.call_object(heard_warnings.that_must_not_warn, load_graph))
        else:
            asm.load_callee(lambda: asm.load_deref(graph_name))
        if all_fetched is not None:
            asm.load_fast(all_fetched)
            asm.call_spread()
        else:
            for item in inputs:
                if item.source in fetched:
                    asm.load_fast(fetched[item.source])
                else:
                    item.source.emit(cg)
            asm.call(len(inputs))
        asm.store_fast(cg.graph_out)
        asm.try_end(token)

    def _largest_copy(self, written: WrittenInput) -> int:
        if self.trace.raises.restores(written.item.storage):
            return rollback.ANY
        return rollback.SMALL if written.fails else rollback.NONE

    def _emit_fallbacks(self, cg: Codegen, fallback: _Fallbacks, drawn: str | None) -> None:
        """Emits the handlers. After a failure (`_C.is_failure`; not after KeyboardInterrupt and the like) they restore the
        tensors and generators that the graph changed and run the original code, which raises at the user's own line. If a
        tensor cannot be restored, they raise the error again. `drawn` is the result of `emit_draws`."""
        asm = cg.asm
        asm.set_position(None)
        for label in cg.used_fallbacks:
            asm.place(label)
            failed = asm.label()
            cg.call_object(_C.is_failure, lambda: asm.copy(3))
            asm.jump_if_true(failed)
            asm.emit("RERAISE", 0)
            asm.place(failed)
            if label is fallback.after_call and fallback.saved_tensors is not None:
                restored = asm.label()
                cg.call_object(rollback.restore, functools.partial(asm.load_fast, fallback.saved_tensors))
                asm.jump_if_true(restored)
                asm.emit("RERAISE", 0)
                asm.place(restored)
            failure = self._describe_failure(cg)
            if label is fallback.after_call and fallback.random_state is not None:
                cg.call_object(torch.set_rng_state, functools.partial(asm.load_fast, fallback.random_state))
                asm.pop()
            if drawn is not None:
                emit_restore_states(cg, drawn)
            self._run_original(cg)
            cg.call_object(
                graph_failures.report, lambda: cg.load_const(self._original), functools.partial(asm.load_fast, failure)
            )
            asm.pop()
            asm.return_value()

    def _describe_failure(self, cg: Codegen) -> str:
        """error -> . Returns the local with its text."""
        error = cg.store_temporary()
        cg.call_object(graph_failures.describe, lambda: cg.load_const(self._original), functools.partial(cg.asm.load_fast, error))
        cg.asm.store_fast(error)
        return error

    def _fall_back_unless_as_traced(self, cg: Codegen, drawn: str | None) -> None:
        """whether the caches have given what was traced -> . If not, runs the original code."""
        as_traced = cg.asm.label()
        cg.asm.jump_if_true(as_traced)
        if drawn is not None:
            emit_restore_states(cg, drawn)
        self._run_original(cg)
        cg.asm.return_value()
        cg.asm.place(as_traced)

    def _run_original(self, cg: Codegen) -> None:
        """-> the result of the original code for the same argument slots. It is not traced: the same would fail again."""
        code = self._original
        _C.never_trace(code)
        load: Callable[[], None] = functools.partial(self._load_function, cg, code, self.root.code.co_freevars)
        arguments: list[Callable[[], None]] = [load]
        arguments += [functools.partial(cg.asm.load_fast, name) for name in self.root.program.argnames]
        with tracebacks_hide_frame(cg):
            if self.trace.overrides.at_entry:
                cg.call_object(call_with_overrides, *arguments)
            else:
                load()
                cg.call_top(*arguments[1:])

    def _closure(self, cg: Codegen, names: tuple[str, ...]) -> None:
        for name in names:
            cg.asm.load_closure(name)
        cg.asm.build_tuple(len(names))

    def _without_overrides(self, inner: types.CodeType, argnames: tuple[str, ...]) -> types.CodeType:
        """Code that runs `inner` while the modes at the entry, which were traced through, are not asked."""
        cg = self._codegen()
        with tracebacks_hide_frame(cg):
            cg.asm.load_callee(lambda: cg.load_object(call_without_overrides))
            self._load_function(cg, inner, inner.co_freevars)
            for name in argnames:
                cg.asm.load_fast(name)
            cg.asm.call(1 + len(argnames))
        cg.asm.return_value()
        code = self.root.code
        freevars = (*code.co_freevars, *self.extras.values)
        return cg.asm.finish(code.co_name, code.co_qualname, code.co_filename, code.co_firstlineno, argnames, freevars)

    def _load_function(self, cg: Codegen, code: types.CodeType, freevars: tuple[str, ...]) -> None:
        """-> a function of this code, over cells of the frame"""
        cg.call_object(
            types.FunctionType,
            lambda: cg.load_const(code),
            lambda: cg.load_globals(self.root.globals),
            lambda: cg.load_const(code.co_name),
            lambda: cg.load_const(None),
            lambda: self._closure(cg, freevars),
        )

    def _codegen(self) -> Codegen:
        return Codegen(self.trace, Assembler(), self.extras, self.outputs)

    # -- bodies ------------------------------------------------------------------------------------------------------

    @property
    def described(self) -> Break | Return | None:
        """What is known of the end of the code that was emitted last, if it was to be described."""
        return self._returned if self._breaks.described is None else self._breaks.described

    def returning(self, value: VariableTracker) -> Callable[[Codegen], None]:
        def body(cg: Codegen) -> None:
            cg.load(value)
            if self._describes_result:
                described = Describer(cg).describe(value)
                self._returned = Return(described, cg.trace.torch_state.after, changed_before(cg), ranges_of_data(cg))
            self.trace.overrides.emit(cg)
            cg.asm.return_value()

        return body

    def breaking(self, frame: InstructionTranslator, runs_instruction: bool = True) -> Callable[[Codegen], None]:
        """The body for a break at the current instruction of `frame`, which the output code runs, or else the resume function."""
        frames = frame.frames()

        def body(cg: Codegen) -> None:
            self._breaks.save_live_values(cg, frames)
            self.trace.overrides.emit(cg)
            self._breaks.emit(cg, frames, runs_instruction)
            cg.asm.return_value()

        return body


def _with_plain_arguments(code: types.CodeType) -> types.CodeType:
    """The same code, but every argument slot, also that of *args and of **kwargs, is a positional parameter."""
    slots = len(argument_slots(code))
    return code.replace(
        co_argcount=slots,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
    )
