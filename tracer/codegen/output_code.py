"""The code that is cached for a frame: call the graph, replay the effects, then return, or run the instruction that broke
the graph and call the resume function of every frame that was open."""
from __future__ import annotations

import contextlib
import dataclasses
import inspect
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from tracer import _C
from tracer.bytecode import Assembler, Instruction, ResumeError, is_resume_code, live_names, overwritten_names, resume_code
from tracer.codegen.codegen import Codegen, Extras
from tracer.codegen.draws import emit_draws, emit_put_back
from tracer.codegen.tracebacks import frame_left_out, shown_as
from tracer.effects import rollback
from tracer.effects.replay import replay
from tracer.graph_breaks import unsupported
from tracer.guards import argument_slots
from tracer.interpreter.trace import Trace
from tracer.interpreter.translator import InstructionTranslator
from tracer.sources import LocalSource, Source
from tracer.variables.base import NullVariable, VariableTracker
from tracer.variables.constant import NONE
from tracer.variables.exceptions import HandledBefore
from tracer.variables.lazy import Unwrapped
from tracer.variables.made_classes import MadeClassVariable

Held = VariableTracker | Unwrapped | str  # a tracked value, or the local of the output code that holds it


@dataclasses.dataclass
class OutputCode:
    code: types.CodeType
    extras: dict[str, Any]
    calls_back: bool  # whether it runs code that the hook must see
    fetched: tuple[Source, ...] = ()  # what check_fn hands it, as a tuple behind the arguments


class OutputCodeBuilder:
    """Emits the code twice: once to learn what the graph must return, once for good."""

    def __init__(
        self,
        trace: Trace,
        root: InstructionTranslator,
        make_resume: Callable[[types.CodeType, dict[str, Any]], Any],
        name_resume: Callable[[int], str],
    ) -> None:
        self.trace = trace
        self.root = root
        self.outputs: dict[fx.Node, int] = {}
        self.extras = Extras()
        self._make_resume = make_resume
        self._name_resume = name_resume
        self._resumes: dict[Any, str] = {}
        self._read_late: list[VariableTracker | Unwrapped] = []  # what the effects must not change under the body

    def learn_outputs(self, body: Callable[[Codegen], None]) -> list[fx.Node]:
        """The nodes that the graph has to return for `body`."""
        cg = self._codegen()
        emit_draws(cg)
        replay(cg, self.trace.effects)
        self.trace.torch_state.emit(cg)
        cg.read_by_source.clear()
        body(cg)
        if self.trace.effects:
            self._read_late = list(cg.read_by_source)
        return list(self.outputs)

    def build(
        self,
        body: Callable[[Codegen], None],
        graph_name: str | None,
        graph: Any,
        inputs: list[Any],
        fetched: tuple[Source, ...] = (),
    ) -> OutputCode:
        """`fetched`: those of the inputs that need not be read again."""
        cg = self._codegen()
        if is_resume_code(self.root.code):
            cg.call_object(_C.let_go)
            cg.asm.pop()
        drawn = emit_draws(cg)
        tuple_of_fetched = cg.asm.fresh_local("fetched") if fetched else None
        if graph is not None and graph_name is not None:
            self.extras.bind(graph_name, graph)
            whole = fetched == tuple([item.source for item in inputs])
            loads = {} if whole else self._unpack(cg, tuple_of_fetched, fetched)
            self._call_graph(cg, graph_name, inputs, loads, tuple_of_fetched if whole else None, drawn)
            if self.trace.effects or self.trace.break_at is not None:  # what runs now may let go of them
                for name in [tuple_of_fetched] if whole and tuple_of_fetched else loads.values():
                    cg.asm.delete_fast(name)
        for value in self._read_late:
            cg.keep(value)
        replay(cg, self.trace.effects)
        self.trace.torch_state.emit(cg)
        body(cg)
        code = self.root.code
        argnames = (*self.root.program.argnames, *([tuple_of_fetched] if tuple_of_fetched else []))
        freevars = (*code.co_freevars, *self.extras.values)
        finished = cg.asm.finish(
            code.co_name, code.co_qualname, code.co_filename, code.co_firstlineno, argnames, freevars
        )
        return OutputCode(finished, dict(self.extras.values), bool(self._resumes), fetched)

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
        inputs: list[Any],
        fetched: dict[Source, str],
        all_fetched: str | None,
        drawn: str | None,
    ) -> None:
        """Calls the graph; `all_fetched` holds all of its inputs, `drawn` is what `emit_draws` gave. If it raises and has
        changed nothing that cannot be put back, the frame runs in CPython instead, which raises at the user's own line, with
        the effects up to there."""
        asm = cg.asm
        again = asm.label()
        done = asm.label()
        written = self.trace.output.written_inputs()
        random = self.trace.output.draws_random_numbers
        if random:
            cg.call_object(torch.get_rng_state)
            random_state = cg.store_temporary()
        if written:
            copies = tuple(fails for _, fails in written)
            loads = [lambda item=item: item.source.emit(cg) for item, _ in written]
            cg.call_object(rollback.remember, lambda: asm.load_const(copies), *loads)  # type: ignore[arg-type]
            saved = cg.store_temporary()
        token = asm.try_begin(again)
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
        asm.jump(done)
        asm.place(again)
        if written:
            restored = asm.label()
            cg.call_object(rollback.put_back, lambda: asm.load_fast(saved))
            asm.emit("POP_JUMP_FORWARD_IF_TRUE", restored)
            asm.emit("RERAISE", 0)
            asm.place(restored)
        asm.pop()
        if random:
            cg.call_object(torch.set_rng_state, lambda: asm.load_fast(random_state))
            asm.pop()
        if drawn is not None:
            emit_put_back(cg, drawn)
        self._run_original(cg)
        asm.return_value()
        asm.place(done)

    def _run_original(self, cg: Codegen) -> None:
        """-> what the original code returns for the same argument slots; traced again, it would fail again"""
        code = _with_plain_arguments(self.root.code)
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
            cg.call_top(*arguments)  # type: ignore[arg-type]

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
            self._keep_live(cg, frames)
            self.trace.overrides.emit(cg)
            self._run_frame(cg, frames, 0)
            cg.asm.return_value()

        return body

    def _keep_live(self, cg: Codegen, frames: list[InstructionTranslator]) -> None:
        """Values are made once, before any of the program's own code runs again."""
        for frame in frames:
            for value in frame.stack:
                if isinstance(value, HandledBefore):
                    cg.keep(value.present)
                elif not isinstance(value, NullVariable):
                    cg.keep(value)
            live = self._live_locals(frame)
            for name, value in frame.locals.items():
                if name in live or _lives_on(value):
                    cg.keep(value)
            for cell in frame.cells.values():
                cg.keep(cell)

    def _live_locals(self, frame: InstructionTranslator) -> list[str]:
        live = live_names(frame.program, frame.pc - 1)
        return sorted(name for name in live if name in frame.locals)

    def _run_frame(self, cg: Codegen, frames: list[InstructionTranslator], depth: int) -> None:
        """-> what the frame at `depth` returns"""
        frame = frames[depth]
        inst = frame.inst
        asm = cg.asm
        asm.set_position(inst.positions)
        done = asm.label()
        handled = [value.present for value in frame.stack if isinstance(value, HandledBefore)]
        for exception in handled:  # sys.exception() is what it was, for the instruction and whatever it calls
            cg.load(exception)
            asm.emit("PUSH_EXC_INFO")
        handler = asm.label()
        token = asm.try_begin(handler, inst.handler.lasti) if inst.handler is not None else None
        asm.emit("NOP")  # belongs to this range alone, so that its depth is the depth here
        if depth + 1 < len(frames):
            kept = list(frame.stack)
            with shown_as(cg, frame, instead=False):
                self._run_frame(cg, frames, depth + 1)
            results, jumped = 1, None
        else:
            with shown_as(cg, frame, instead=True) if depth else contextlib.nullcontext():
                kept, results, jumped = self._run_instruction(cg, frames)
        if token is not None:
            asm.try_end(token)
        names = self._store_results(cg, results, handled)
        outer = self._alive_in(frames[:depth])
        self._resume(cg, frame, frame.pc, kept, names, outer)
        if jumped is not None or token is not None:
            asm.jump(done)
        if jumped is not None:
            asm.place(jumped.label)
            names = self._store_results(cg, jumped.results, handled)
            self._resume(cg, frame, jumped.target, jumped.stack, names, outer)
            if token is not None:
                asm.jump(done)
        if token is not None:
            assert inst.handler is not None
            asm.place(handler)
            names = self._store_results(cg, 1 + inst.handler.lasti, handled)
            self._resume(cg, frame, inst.handler.target, frame.stack[: inst.handler.depth], names, outer)
        asm.place(done)

    def _store_results(self, cg: Codegen, count: int, handled: list[VariableTracker]) -> list[str]:
        """results... -> ; ends what was handled meanwhile"""
        names = [cg.store_temporary() for _ in range(count)][::-1]
        for _ in handled:
            cg.asm.pop()
            cg.asm.emit("POP_EXCEPT")
        return names

    def _alive_in(self, frames: list[InstructionTranslator]) -> list[VariableTracker | Unwrapped]:
        alive: list[VariableTracker | Unwrapped] = []
        for frame in frames:
            alive += (value.present if isinstance(value, HandledBefore) else value for value in frame.stack)
            alive += frame.locals.values()
            alive += frame.cells.values()
        return alive

    # -- the instruction ---------------------------------------------------------------------------------------------

    def _push_operands(self, cg: Codegen, frames: list[InstructionTranslator], count: int) -> None:
        """-> the top `count` values of the innermost frame, which nothing else holds any more, unless the program does"""
        frame = frames[-1]
        first = len(frame.stack) - count
        for value in frame.stack[first:]:
            self._push(cg, value)
        alive = self._alive_in(frames[:-1])
        operands, frame.stack = frame.stack, frame.stack[:first]
        alive += self._alive_in([frame])
        frame.stack = operands
        cg.release(self._locals_of(cg), alive)

    def _run_instruction(
        self, cg: Codegen, frames: list[InstructionTranslator]
    ) -> tuple[list[VariableTracker], int, _Jump | None]:
        """Runs the instruction on real values: (stack below its operands, number of results, where it may jump)"""
        frame = frames[-1]
        inst = frame.inst
        asm = cg.asm
        stack = frame.stack
        if inst.opname == "CALL":
            return self._run_call(cg, frames)
        if inst.opname in _OF_A_MODULE and frame.globals is not self.root.globals:
            unsupported("cannot-reconstruct", value=f"{inst.opname} for the module of a callee")
        if inst.opname == "LOAD_METHOD":  # NULL, obj.name
            self._push_operands(cg, frames, 1)
            asm.emit("LOAD_ATTR", inst.argval)
            return [*stack[:-1], NULL_VALUE], 1, None
        if inst.target is not None:
            return self._run_jump(cg, inst, frames)
        operands, results = _stack_use(inst, len(stack))
        self._push_operands(cg, frames, operands)
        if inst.opname == "LOAD_GLOBAL":
            asm.emit("LOAD_GLOBAL", (False, inst.argval))
            below = [*stack, NULL_VALUE] if inst.arg & 1 else list(stack)  # type: ignore[operator]
            return below, 1, None
        asm.emit_copy(inst)
        return list(stack[: len(stack) - operands]), results, None

    def _run_call(
        self, cg: Codegen, frames: list[InstructionTranslator]
    ) -> tuple[list[VariableTracker], int, _Jump | None]:
        frame = frames[-1]
        count = frame.inst.arg
        assert count is not None
        self._push_operands(cg, frames, count + 2)
        cg.asm.call(count, frame.keyword_names)
        return list(frame.stack[: -count - 2]), 1, None

    def _run_jump(
        self, cg: Codegen, inst: Instruction, frames: list[InstructionTranslator]
    ) -> tuple[list[VariableTracker], int, _Jump | None]:
        asm = cg.asm
        assert inst.target is not None
        label = asm.label()
        stack = frames[-1].stack
        if inst.opname == "FOR_ITER":  # the iterator stays
            self._push(cg, stack[-1])
        else:
            self._push_operands(cg, frames, 1)
        below = list(stack[:-1])
        if inst.opname == "FOR_ITER":
            asm.emit("FOR_ITER", label)
            asm.swap(2)
            asm.pop()
            return list(stack), 1, _Jump(label, inst.target, below, 0)
        name = inst.opname.replace("_FORWARD", "").replace("_BACKWARD", "")
        if name.startswith("POP_JUMP"):
            asm.emit(f"POP_JUMP_FORWARD{name[len('POP_JUMP'):]}", label)
            return below, 0, _Jump(label, inst.target, below, 0)
        if name.endswith("_OR_POP"):
            asm.emit(name, label)
            return below, 0, _Jump(label, inst.target, below, 1)
        unsupported("unsupported-opcode", opcode=inst.opname)

    def _push(self, cg: Codegen, value: VariableTracker) -> None:
        if isinstance(value, NullVariable):
            cg.asm.push_null()
        else:
            cg.load(value)

    # -- resuming ----------------------------------------------------------------------------------------------------

    def _resume(
        self,
        cg: Codegen,
        frame: InstructionTranslator,
        index: int,
        stack: list[VariableTracker],
        results: list[str],
        outer: list[VariableTracker | Unwrapped],
    ) -> None:
        """-> resume function of `frame` at `index`, called with stack, results and live locals. Meanwhile the output code
        keeps alive what the frames further out hold, and locals that are read no more, as CPython does. Those that will hold
        another value are handed over for that to be the end of them."""
        offset = frame.program.instructions[index].offset
        index, stack, results, locals_now = _step_over_stores(frame, index, stack, results)
        live = live_names(frame.program, index)
        overwritten = overwritten_names(frame.program, index)
        handed: dict[str, Held] = {name: locals_now[name] for name in sorted(live) if name in locals_now}
        for local in sorted(overwritten):  # None where there is nothing that could be missed
            last = locals_now.get(local, NONE)
            handed[local] = last if cg.is_at_hand(last) else NONE
        locals_ = tuple(handed)
        kinds = tuple("null" if isinstance(value, NullVariable) else "value" for value in stack)
        exc_handled = _handled_positions(stack)
        key = (frame.code, index, kinds, len(results), locals_, exc_handled)
        name = self._resumes.get(key)
        if name is None:
            layout: Any = kinds + ("value",) * len(results)
            try:
                code = resume_code(frame.code, index, layout, locals_, exc_handled=exc_handled)
            except ResumeError as error:
                unsupported("cannot-reconstruct", value=str(error))
            name = self._resumes[key] = self._name_resume(offset)
            self.extras.bind(name, self._make_resume(code, frame.globals))
        unread = [value for local, value in locals_now.items() if local not in live and local not in overwritten]
        kept = {value for value in unread if isinstance(value, str)}
        alive = [*outer, *(value for value in unread if not isinstance(value, str))]
        with frame_left_out(cg):
            self._push_hand_over(cg, frame, name)
            count = len(results) + len(locals_)
            for value in stack:
                if not isinstance(value, NullVariable):
                    cg.load(value.present if isinstance(value, HandledBefore) else value)
                    count += 1
            for result in (*results, *handed.values()):
                self._load(cg, result)
            cg.asm.emit("BUILD_LIST", count)  # out of which the resumed frame takes them
            cg.release([local for local in self._locals_of(cg) if local not in kept], alive)
            cg.asm.call(1)

    def _push_hand_over(self, cg: Codegen, frame: InstructionTranslator, name: str) -> None:
        """-> NULL, hand_over of the resume function over the cells of the frame"""
        cells = [frame.cells[cell] for cell in (*frame.code.co_cellvars, *frame.code.co_freevars)]
        cg.asm.push_null()
        cg.asm.load_deref(name)
        if cells:
            cg.asm.load_attr("with_closure")
            cg.call_top(lambda: cg.build_sequence("BUILD_TUPLE", cells))
        cg.asm.load_attr("hand_over")

    def _locals_of(self, cg: Codegen) -> list[str]:
        """The locals of the output code so far."""
        return [*self.root.program.argnames, *cg.own_locals]

    def _load(self, cg: Codegen, value: Held) -> None:
        if isinstance(value, str):
            cg.asm.load_fast(value)
        else:
            cg.load(value)


def _step_over_stores(
    frame: InstructionTranslator, index: int, stack: list[VariableTracker], results: list[str]
) -> tuple[int, list[VariableTracker], list[str], dict[str, Held]]:
    """The instructions behind the one that broke the graph which only drop a result or store it in a local are done by the
    output code: a result that nobody takes dies at once, and so does what a local held before."""
    stack, results = list(stack), list(results)
    locals_: dict[str, Held] = dict(frame.locals)
    instructions = frame.program.instructions
    while results and instructions[index].opname in ("POP_TOP", "STORE_FAST"):
        value = results.pop()
        if instructions[index].opname == "STORE_FAST":
            locals_[instructions[index].argval] = value
        index += 1
    return index, stack, results, locals_


def _lives_on(value: VariableTracker | Unwrapped) -> bool:
    """Whether a local that is read no more has to be kept alive: it existed before the frame ran, or others know of it."""
    if isinstance(value, MadeClassVariable):
        return value.is_known_to_its_bases()
    return value.source is not None and not isinstance(value.source, LocalSource)


def _handled_positions(stack: list[VariableTracker]) -> tuple[int, ...]:
    """For each exception being handled, the stack position of the argument that holds it."""
    positions = []
    for index, value in enumerate(stack):
        if isinstance(value, HandledBefore):
            on_stack = index + 1 < len(stack) and stack[index + 1] is value.present
            positions.append(index + on_stack)
    return tuple(positions)


@dataclasses.dataclass
class _Jump:
    """Where an instruction may go on instead, and the stack it leaves there below its results."""

    label: Any
    target: int
    stack: list[VariableTracker]
    results: int


def _with_plain_arguments(code: types.CodeType) -> types.CodeType:
    """The same code for a function that is given every argument slot, *args and **kwargs too, by position."""
    slots = len(argument_slots(code))
    return code.replace(
        co_argcount=slots,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
    )


_OF_A_MODULE = ("LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "IMPORT_NAME")
NULL_VALUE: VariableTracker = NullVariable()
_USES: dict[str, tuple[int, int]] = {
    "LOAD_ATTR": (1, 1), "STORE_ATTR": (2, 0), "DELETE_ATTR": (1, 0), "BINARY_OP": (2, 1), "COMPARE_OP": (2, 1),
    "IS_OP": (2, 1), "CONTAINS_OP": (2, 1), "UNARY_NEGATIVE": (1, 1), "UNARY_POSITIVE": (1, 1), "UNARY_NOT": (1, 1),
    "UNARY_INVERT": (1, 1), "BINARY_SUBSCR": (2, 1), "STORE_SUBSCR": (3, 0), "DELETE_SUBSCR": (2, 0), "GET_ITER": (1, 1),
    "LOAD_GLOBAL": (0, 1), "IMPORT_NAME": (2, 1), "LIST_TO_TUPLE": (1, 1), "BEFORE_WITH": (1, 2), "GET_LEN": (1, 2),
    "STORE_GLOBAL": (1, 0), "DELETE_GLOBAL": (0, 0), "RAISE_VARARGS": (0, 0), "LOAD_BUILD_CLASS": (0, 1),
    "LOAD_ASSERTION_ERROR": (0, 1), "LOAD_CONST": (0, 1),
}  # fmt: skip


def _stack_use(inst: Instruction, depth: int) -> tuple[int, int]:
    """How many values an instruction takes from the stack and how many it leaves."""
    arg = inst.arg or 0
    known = _USES.get(inst.opname)
    if inst.opname == "RAISE_VARARGS":
        return arg, 0
    if known is not None:
        return known
    if inst.opname == "UNPACK_SEQUENCE":
        return 1, arg
    if inst.opname == "UNPACK_EX":
        return 1, (arg & 0xFF) + 1 + (arg >> 8)
    if inst.opname in ("BUILD_SET", "BUILD_STRING", "BUILD_LIST", "BUILD_TUPLE"):
        return arg, 1
    if inst.opname == "BUILD_MAP":
        return 2 * arg, 1
    if inst.opname == "FORMAT_VALUE":
        return (2 if arg & 4 else 1), 1
    if inst.opname == "CALL_FUNCTION_EX":
        return (4 if arg & 1 else 3), 1
    if inst.opname in ("LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE", "SET_ADD", "LIST_APPEND"):
        return arg + 1, arg
    if inst.opname == "MAP_ADD":
        return arg + 2, arg
    unsupported("unsupported-opcode", opcode=inst.opname)
