"""The code that is cached for a frame: call the graph, replay the effects, then return, or run the instruction that broke
the graph and call the resume function of every frame that was open."""

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
from tracer.bytecode import Assembler, Label, is_resume_code
from tracer.codegen.breaking import BreakEmitter
from tracer.codegen.cache_checks import emit_asking
from tracer.codegen.codegen import Codegen, Extras
from tracer.codegen.random_draws import emit_draws, emit_put_back
from tracer.codegen.replay import replay
from tracer.codegen.tracebacks import frame_left_out
from tracer.effects import rollback
from tracer.guards import argument_slots
from tracer.interpreter.trace import Trace
from tracer.interpreter.translator import InstructionTranslator
from tracer.protocol.lazy import Unwrapped
from tracer.protocol.variable import VariableTracker
from tracer.sources import LocalSource, Source

if TYPE_CHECKING:
    from tracer.graph.output_graph import GraphInput

# The inputs of a graph (a slot each, or -1 - i for what check_fn hands out at i), and the program's own code for the same slots.
DirectCall = tuple[tuple[int, ...], types.CodeType]


@dataclasses.dataclass
class OutputCode:
    code: types.CodeType
    extras: dict[str, Any]
    calls_back: bool  # whether it runs code that the hook must see
    fetched: tuple[Source, ...] = ()  # what check_fn hands it, as a tuple behind the arguments
    direct: DirectCall | None = None  # all that it does is to return the first result of its graph


@dataclasses.dataclass
class _StartOver:
    """Handlers for what fails before anything has been done: the graph, or reading what another thread has changed meanwhile."""

    before_graph: Label
    behind: Label  # also for what the graph itself raises
    saved: str | None = None  # the local that holds the state of tensors that the graph writes to
    random_state: str | None = None


class OutputCodeBuilder:
    """Emits the code twice: once to learn what the graph must return, once for good."""

    def __init__(
        self,
        trace: Trace,
        root: InstructionTranslator,
        make_resume: Callable[[types.CodeType, dict[str, Any], bool], Any],
        name_resume: Callable[[int], str],
    ) -> None:
        self.trace = trace
        self.root = root
        self.outputs: dict[fx.Node, int] = {}
        self.extras = Extras()
        self._original = _with_plain_arguments(root.code)
        self._breaks = BreakEmitter(self.extras, root.program.argnames, make_resume, name_resume)
        self._read_late: list[VariableTracker | Unwrapped] = []  # what the graph and the effects must not change under the body

    def learn_outputs(self, body: Callable[[Codegen], None]) -> list[fx.Node]:
        """The nodes that the graph has to return for `body`."""
        cg = self._codegen()
        emit_draws(cg)
        emit_asking(cg)
        replay(cg, self.trace.effects)
        self.trace.torch_state.emit(cg)
        cg.read_by_source.clear()
        body(cg)
        cg.refuse_what_nothing_holds()
        if self.trace.effects or self.trace.output.written_inputs():
            self._read_late = list(cg.read_by_source)
        return list(self.outputs)

    def build(
        self,
        body: Callable[[Codegen], None],
        graph_name: str | None,
        graph: Any,
        inputs: list[GraphInput],
        fetched: tuple[Source, ...] = (),
    ) -> OutputCode:
        """`fetched`: those of the inputs that need not be read again."""
        cg = self._codegen()
        if is_resume_code(self.root.code):
            cg.call_object(_C.let_go)
            cg.asm.pop()
        start_over = _StartOver(cg.asm.label(), cg.asm.label())
        drawn = emit_draws(cg)
        cg.start_over = start_over.before_graph
        if emit_asking(cg):
            self._unless_as_traced(cg, drawn)
        tuple_of_fetched = cg.asm.fresh_local("fetched") if fetched else None
        behind = None
        if graph is not None and graph_name is not None:
            self.extras.bind(graph_name, graph)
            whole = fetched == tuple([item.source for item in inputs])
            loads = {} if whole else self._unpack(cg, tuple_of_fetched, fetched)
            if self.trace.output.written_inputs():
                self._keep_read_late(cg)
            self._call_graph(cg, graph_name, inputs, loads, tuple_of_fetched if whole else None, start_over)
            if self.trace.effects or self.trace.break_at is not None:  # what runs now may let go of them
                for name in [tuple_of_fetched] if whole and tuple_of_fetched else loads.values():
                    cg.asm.delete_fast(name)
            behind = cg.asm.position()
        self._keep_read_late(cg)
        replay(cg, self.trace.effects)
        self.trace.torch_state.emit(cg)
        body(cg)
        direct = None if behind is None or drawn else self._direct_call(cg, behind, inputs, fetched)
        self._start_over(cg, start_over, drawn)
        code = self.root.code
        argnames = (*self.root.program.argnames, *([tuple_of_fetched] if tuple_of_fetched else []))
        freevars = (*code.co_freevars, *self.extras.values)
        finished = cg.asm.finish(code.co_name, code.co_qualname, code.co_filename, code.co_firstlineno, argnames, freevars)
        return OutputCode(finished, dict(self.extras.values), bool(self._breaks.resumes), fetched, direct)

    def _keep_read_late(self, cg: Codegen) -> None:
        for value in self._read_late:
            cg.keep(value)

    def _direct_call(self, cg: Codegen, behind: int, inputs: list[GraphInput], fetched: tuple[Source, ...]) -> DirectCall | None:
        """What the code comes down to, if nothing is done but to call the graph. `behind`: where its call ends."""
        output = self.trace.output
        if is_resume_code(self.root.code) or output.written_inputs() or output.draws_random_numbers:
            return None
        match cg.asm.since(behind):
            case [("LOAD_FAST", cg.graph_out), ("LOAD_CONST", 0), ("BINARY_SUBSCR", _), *rest, ("RETURN_VALUE", _)]:
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
        """The locals that hold what was fetched."""
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
        start_over: _StartOver,
    ) -> None:
        """Calls the graph; `all_fetched` holds all of its inputs. If it raises, `start_over` says what is done."""
        asm = cg.asm
        written = self.trace.output.written_inputs()
        if self.trace.output.draws_random_numbers:
            cg.call_object(torch.get_rng_state)
            start_over.random_state = cg.store_temporary()
        if written:
            copies = tuple(fails for _, fails in written)
            loads = [lambda item=item: cg.read(item.source) for item, _ in written]
            cg.call_object(rollback.remember, lambda: asm.load_const(copies), *loads)
            start_over.saved = cg.store_temporary()
        cg.start_over = start_over.behind
        cg.may_start_over.setdefault(start_over.behind)
        token = asm.try_begin(start_over.behind)
        asm.push_null()
        asm.load_deref(graph_name)
        if all_fetched is not None:
            asm.load_fast(all_fetched)
            asm.emit("CALL_FUNCTION_EX", 0)
        else:
            for item in inputs:
                if item.source in fetched:
                    asm.load_fast(fetched[item.source])
                else:
                    item.source.emit(cg)
            asm.call(len(inputs))
        asm.store_fast(cg.graph_out)
        asm.try_end(token)

    def _start_over(self, cg: Codegen, start_over: _StartOver, drawn: str | None) -> None:
        """What the handlers do. If the graph has changed nothing that cannot be put back, the frame runs in CPython instead,
        which raises at the user's own line, with the effects up to there, or does what is right now. What ends the program, or
        a recomputation, goes on (`_C.is_failure`). `drawn` is what `emit_draws` gave."""
        asm = cg.asm
        asm.set_position(None)
        for label in cg.may_start_over:
            asm.place(label)
            failed = asm.label()
            cg.call_object(_C.is_failure, lambda: asm.copy(3))
            asm.emit("POP_JUMP_FORWARD_IF_TRUE", failed)
            asm.emit("RERAISE", 0)
            asm.place(failed)
            if label is start_over.behind and start_over.saved is not None:
                restored = asm.label()
                cg.call_object(rollback.put_back, functools.partial(asm.load_fast, start_over.saved))
                asm.emit("POP_JUMP_FORWARD_IF_TRUE", restored)
                asm.emit("RERAISE", 0)
                asm.place(restored)
            asm.pop()
            if label is start_over.behind and start_over.random_state is not None:
                cg.call_object(torch.set_rng_state, functools.partial(asm.load_fast, start_over.random_state))
                asm.pop()
            if drawn is not None:
                emit_put_back(cg, drawn)
            self._run_original(cg)
            asm.return_value()

    def _unless_as_traced(self, cg: Codegen, drawn: str | None) -> None:
        """Runs the original code where a cache gave something else than what was traced."""
        as_traced = cg.asm.label()
        cg.asm.load_fast(cg.kept_results)
        cg.asm.emit("POP_JUMP_FORWARD_IF_TRUE", as_traced)
        if drawn is not None:
            emit_put_back(cg, drawn)
        self._run_original(cg)
        cg.asm.return_value()
        cg.asm.place(as_traced)

    def _run_original(self, cg: Codegen) -> None:
        """-> what the original code returns for the same argument slots; traced again, it would fail again"""
        code = self._original
        _C.never_trace(code)
        with frame_left_out(cg):
            cg.call_object(
                types.FunctionType,
                lambda: cg.load_const(code),
                lambda: cg.load_globals(self.root.globals),
                lambda: cg.load_const(code.co_name),
                lambda: cg.load_const(None),
                lambda: self._original_closure(cg),
            )
            arguments = [lambda name=name: cg.asm.load_fast(name) for name in self.root.program.argnames]
            cg.call_top(*arguments)

    def _original_closure(self, cg: Codegen) -> None:
        for name in self.root.code.co_freevars:
            cg.asm.load_closure(name)
        cg.asm.build_tuple(len(self.root.code.co_freevars))

    def _codegen(self) -> Codegen:
        return Codegen(self.trace, Assembler(), self.extras, self.outputs)

    # -- bodies ------------------------------------------------------------------------------------------------------

    def returning(self, value: VariableTracker) -> Callable[[Codegen], None]:
        def body(cg: Codegen) -> None:
            cg.load(value)
            self.trace.overrides.emit(cg)
            cg.asm.return_value()

        return body

    def breaking(self, frame: InstructionTranslator) -> Callable[[Codegen], None]:
        """The instruction that `frame` stands at is run by CPython; every frame from there to the root resumes."""
        frames = frame.frames()

        def body(cg: Codegen) -> None:
            self._breaks.keep_live(cg, frames)
            self.trace.overrides.emit(cg)
            self._breaks.emit(cg, frames)
            cg.asm.return_value()

        return body


def _with_plain_arguments(code: types.CodeType) -> types.CodeType:
    """The same code for a function that is given every argument slot, *args and **kwargs too, by position."""
    slots = len(argument_slots(code))
    return code.replace(
        co_argcount=slots,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
    )
