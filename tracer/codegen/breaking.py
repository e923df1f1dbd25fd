"""Output code at a graph break: CPython runs the instruction that broke the graph, then each open frame calls its resume
function."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable
from typing import Any

from tracer.bytecode import ResumeError, StackEntry, callee_kinds, live_names, overwritten_names, resume_code
from tracer.bytecode.dialect import DIALECT
from tracer.bytecode.opcode_facts import FACTS
from tracer.codegen.codegen import Codegen, Extras
from tracer.codegen.handover import Break, Describer, Handed, Result, Resumption, changed_before, ranges_of_data
from tracer.codegen.instruction import Ran, push, run_instruction
from tracer.codegen.tracebacks import tracebacks_hide_frame, tracebacks_show_inlined
from tracer.effects.lifetimes import has_finalizer
from tracer.graph_breaks import unsupported
from tracer.guards.lifetimes import may_run_code
from tracer.interpreter.translator import InstructionTranslator
from tracer.protocol.lazy import Unwrapped
from tracer.protocol.variable import NullVariable, VariableTracker
from tracer.sources.roots import LocalSource
from tracer.variables.builders.weak_references import leads_to
from tracer.variables.classes.made_classes import MadeClassVariable
from tracer.variables.exceptions.exceptions import HandledBefore
from tracer.variables.objects.memory_views import MemoryViewVariable
from tracer.variables.values.constant import NONE

# (code, globals, whether its frame is the innermost one, whether it was called by another one, the arguments that hold what the
# instruction of the break gave) -> the dispatcher
MakeResume = Callable[[types.CodeType, dict[str, Any], bool, bool, tuple[str, ...]], Any]
Held = VariableTracker | Unwrapped | str  # a tracked value, or the local of the output code that holds it


class BreakEmitter:
    """Emits the break for the frames of one trace. `make_resume` gives the dispatcher of a resume function, `name_resume` a name
    for one by the offset at which it resumes."""

    def __init__(
        self,
        extras: Extras,
        argnames: tuple[str, ...],
        make_resume: MakeResume,
        name_resume: Callable[[int], str],
        describes: bool = False,
    ) -> None:
        self.resumes: dict[Any, str] = {}
        self.described: Break | None = None  # of the code that was emitted last, if it was to be described
        self._extras = extras
        self._argnames = argnames
        self._make_resume = make_resume
        self._name_resume = name_resume
        self._describes = describes
        self._describer: Describer | None = None
        self._resumptions: list[list[Resumption]] = []  # of each open frame
        self._runs_instruction = True

    def emit(self, cg: Codegen, frames: list[InstructionTranslator], runs_instruction: bool = True) -> None:
        """-> what the root, the first of `frames`, returns. `runs_instruction`: the resume function goes on after the instruction
        that the innermost frame stands at, which runs here; else with it."""
        cg.fallback = None
        self._runs_instruction = runs_instruction
        self._describer = Describer(cg) if self._describes else None
        self._resumptions = [[] for _ in frames]
        operands = [] if self._describer is None else self._operands(self._describer, frames[-1])
        self._run_frame(cg, frames, 0)
        if self._describer is not None:
            self.described = Break(
                frames[-1].inst.opname,
                frames[-1].location(),
                tuple(operands),
                tuple(map(tuple, self._resumptions)),
                cg.trace.torch_state.after,
                changed_before(cg),
                tuple([call.function for call in cg.effects.calls]),
                ranges_of_data(cg),
            )

    def _operands(self, describer: Describer, frame: InstructionTranslator) -> list[Handed]:
        """What is known of the operands of the instruction at the break; of a call, without the names of arguments."""
        inst = frame.inst
        uses = FACTS[inst.opcode].uses
        count = (
            (inst.arg or 0) + 2
            if inst.opname == "CALL"
            else 1
            if inst.target is not None or uses is None
            else uses(inst.arg or 0)[0]
        )
        values = frame.stack[max(0, len(frame.stack) - count) : -1 if inst.opname == DIALECT.keyword_call else None]
        return [describer.describe(value) for value in values if not isinstance(value, NullVariable)]

    def save_live_values(self, cg: Codegen, frames: list[InstructionTranslator]) -> None:
        """Stores the live values in locals, before code of the program runs that could change what they are read from."""
        watched = cg.trace.weak_references
        for frame in frames:
            for value in frame.stack:
                if isinstance(value, HandledBefore):
                    cg.keep(value.present)
                elif not isinstance(value, NullVariable):
                    cg.keep(value)
            live = self._live_locals(frame)
            for name, value in frame.locals.items():
                is_missed = (
                    _outlives_frame(value) or _death_is_noticed(value) or (watched and leads_to(cg.effects, [value], watched))
                )
                if name in live or is_missed:
                    cg.keep(value)
            for cell in frame.cells.values():
                cg.keep(cell)

    def _live_locals(self, frame: InstructionTranslator) -> list[str]:
        live = _live_or_in_cells(frame, frame.pc - 1)
        return sorted(name for name in live if name in frame.locals)

    def _run_frame(self, cg: Codegen, frames: list[InstructionTranslator], depth: int) -> None:
        """-> what the frame at `depth` returns"""
        frame = frames[depth]
        inst = frame.inst
        asm = cg.asm
        asm.set_position(inst.positions)
        done = asm.label()
        handled = [value.present for value in frame.stack if isinstance(value, HandledBefore)]
        for exception in handled:  # so that sys.exception() returns it, in the instruction and in what it calls
            cg.load(exception)
            asm.emit("PUSH_EXC_INFO")
        handler = asm.label()
        token = asm.try_begin(handler, inst.handler.lasti) if inst.handler is not None else None
        asm.emit("NOP")  # so that the exception range has an instruction of its own, whose stack depth is the depth here
        if depth + 1 < len(frames):
            ran = Ran(list(frame.stack), 1)
            with tracebacks_show_inlined(cg, frame, instead=False):
                self._run_frame(cg, frames, depth + 1)
        elif not self._runs_instruction:
            ran = Ran(list(frame.stack), 0, deferred=True)
        else:
            with tracebacks_show_inlined(cg, frame, instead=True) if depth else contextlib.nullcontext():
                ran = run_instruction(cg, frames, lambda count: self._push_operands(cg, frames, count))
        jumped = ran.jump
        if token is not None:
            asm.try_end(token)
        names = self._store_results(cg, ran.results, handled)
        outer = self._alive_in(frames[:depth])
        index = inst.index if ran.deferred else frame.pc
        self._resume(cg, (depth, "next"), frame, index, ran.below, names, outer, ran.is_callee)
        if jumped is not None or token is not None:
            asm.jump(done)
        if jumped is not None:
            asm.place(jumped.label)
            for opname in jumped.passed:
                asm.emit(opname)
            names = self._store_results(cg, jumped.results, handled)
            target = jumped.target + len(jumped.passed)
            self._resume(cg, (depth, "jump"), frame, target, jumped.stack, names, outer)
            if token is not None:
                asm.jump(done)
        if token is not None:
            assert inst.handler is not None
            asm.place(handler)
            if inst.handler.lasti and not DIALECT.offsets_are_objects:  # the resume function makes its own
                asm.swap(2)
                asm.pop()
                asm.load_const(None)
                asm.swap(2)
            names = self._store_results(cg, 1 + inst.handler.lasti, handled)
            stack = frame.stack[: inst.handler.depth]
            self._resume(cg, (depth, "handler"), frame, inst.handler.target, stack, names, outer)
        asm.place(done)

    def _store_results(self, cg: Codegen, count: int, handled: list[VariableTracker]) -> list[str]:
        """results... -> ; pops the exceptions that were being handled"""
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

    def _push_operands(self, cg: Codegen, frames: list[InstructionTranslator], count: int) -> None:
        """-> the top `count` values of the innermost frame; the output code drops its own references to them"""
        frame = frames[-1]
        first = len(frame.stack) - count
        for value in frame.stack[first:]:
            push(cg, value)
        alive = self._alive_in(frames[:-1])
        operands, frame.stack = frame.stack, frame.stack[:first]
        alive += self._alive_in([frame])
        frame.stack = operands
        cg.release(self._locals_of(cg), alive)

    # -- resuming ----------------------------------------------------------------------------------------------------

    def _resume(
        self,
        cg: Codegen,
        way: tuple[int, str],
        frame: InstructionTranslator,
        index: int,
        stack: list[VariableTracker],
        results: list[str],
        outer: list[VariableTracker | Unwrapped],
        is_callee: bool = False,
    ) -> None:
        """-> the result of the resume function of `frame` at `index`, called with stack, results and live locals. `way`: the
        depth of the frame, and how it goes on. `is_callee`: the result is one that a call is to take, with its NULL.

        As in CPython, the values of outer frames and of locals that are not read again stay alive during the call. A local
        that will be overwritten is passed too, so that its value dies at that moment.
        """
        offset = frame.program.instructions[index].offset
        result_names = list(results)
        index, stack, results, locals_now = _step_over_stores(frame, index, stack, results)
        live = _live_or_in_cells(frame, index)
        overwritten = overwritten_names(frame.program, index).difference(frame.code.co_cellvars, frame.code.co_freevars)
        handed: dict[str, Held] = {name: locals_now[name] for name in sorted(live) if name in locals_now}
        for local in sorted(overwritten):  # None for a value that would have to be made first
            last = locals_now.get(local, NONE)
            handed[local] = last if cg.is_available(last) else NONE
        locals_ = tuple(handed)
        kinds: tuple[StackEntry, ...] = tuple("null" if isinstance(value, NullVariable) else "value" for value in stack)
        exc_handled = _handled_positions(stack)
        kinds += callee_kinds() if is_callee else tuple("value" for _ in results)
        key = (frame.code, index, kinds, locals_, exc_handled)
        name = self.resumes.get(key)
        if name is None:
            try:
                code = resume_code(frame.code, index, kinds, locals_, exc_handled=exc_handled)
            except ResumeError as error:
                unsupported("cannot-reconstruct", value=str(error))
            name = self.resumes[key] = self._name_resume(offset)
            given = _result_arguments(code, len(results), handed)
            innermost, inlined = frame is cg.trace.frame, frame.parent is not None
            self._extras.bind(name, self._make_resume(code, frame.globals, innermost, inlined, given))
        self._describe(way, name, frame, [*stack, *results, *handed.values()], result_names)
        unread = [value for local, value in locals_now.items() if local not in live and local not in overwritten]
        kept = {value for value in unread if isinstance(value, str)}
        alive = [*outer, *(value for value in unread if not isinstance(value, str))]
        if frame.parent is not None:  # a traceback shows the line of the caller
            cg.asm.set_position(frame.parent.inst.positions)
        with tracebacks_hide_frame(cg):
            self._push_hand_over(cg, frame, name)
            count = len(results) + len(locals_)
            for value in stack:
                if not isinstance(value, NullVariable):
                    cg.load(value.present if isinstance(value, HandledBefore) else value)
                    count += 1
            for result in (*results, *handed.values()):
                self._load(cg, result)
            cg.asm.emit("BUILD_LIST", count)  # the resume function takes them out of the list, so that the list keeps none alive
            cg.release([local for local in self._locals_of(cg) if local not in kept], alive)
            cg.asm.call(1)

    def _describe(
        self, way: tuple[int, str], name: str, frame: InstructionTranslator, values: list[Any], results: list[str]
    ) -> None:
        if self._describer is None:
            return
        describe = self._describer.describe
        handed = [value for value in values if not isinstance(value, NullVariable)]
        args = tuple([Result(results.index(value)) if isinstance(value, str) else describe(value) for value in handed])
        cells = tuple([describe(cell) for cell in frame.closure()])
        self._resumptions[way[0]].append(Resumption(name, way[1], args, cells))

    def _push_hand_over(self, cg: Codegen, frame: InstructionTranslator, name: str) -> None:
        """-> the callee `hand_over`, a method of the resume function, which is bound to the cells of the frame"""
        cells = frame.closure()

        def load() -> None:
            cg.asm.load_deref(name)
            if cells:
                cg.asm.load_attr("with_closure")
                cg.call_top(lambda: cg.build_sequence("BUILD_TUPLE", cells))
            cg.asm.load_attr("hand_over")

        cg.asm.load_callee(load)

    def _locals_of(self, cg: Codegen) -> list[str]:
        """All locals of the output code, arguments included."""
        return [*self._argnames, *cg.own_locals]

    def _load(self, cg: Codegen, value: Held) -> None:
        if isinstance(value, str):
            cg.asm.load_fast(value)
        else:
            cg.load(value)


def _result_arguments(code: types.CodeType, count: int, handed: dict[str, Held]) -> tuple[str, ...]:
    """The arguments of a resume function that hold what the instruction of the break gave: the last `count` of its stack, and
    locals that it was stored in. The locals `handed` come behind the stack."""
    on_stack = code.co_varnames[: code.co_argcount - len(handed)]
    stored = [local for local, held in handed.items() if isinstance(held, str)]
    return (*on_stack[len(on_stack) - count :], *stored)


def _live_or_in_cells(frame: InstructionTranslator, index: int) -> frozenset[str]:
    """The locals that are live before an instruction, and the names of cells: in the place of one, an inlined comprehension may
    keep a plain value."""
    return live_names(frame.program, index).union(frame.code.co_cellvars, frame.code.co_freevars)


def _step_over_stores(
    frame: InstructionTranslator, index: int, stack: list[VariableTracker], results: list[str]
) -> tuple[int, list[VariableTracker], list[str], dict[str, Held]]:
    """Executes, in the output code's bookkeeping, the next instructions as long as they only drop a result, store it in a local
    or delete a local. So a result that is dropped dies at once, and so does the former value of a local."""
    stack, results = list(stack), list(results)
    locals_: dict[str, Held] = dict(frame.locals)
    instructions = frame.program.instructions
    while True:
        inst = instructions[index]
        if inst.opname == "DELETE_FAST" and inst.argval in locals_:
            del locals_[inst.argval]
        elif inst.opname == "STORE_FAST" and results:
            locals_[inst.argval] = results.pop()
        elif inst.opname == "POP_TOP" and results:
            results.pop()
        else:
            break
        index += 1
    return index, stack, results, locals_


def _outlives_frame(value: VariableTracker | Unwrapped) -> bool:
    """Whether the program can reach the value of a local that is not read again: it existed before the frame ran, or it is a
    class that its bases list as a subclass."""
    if isinstance(value, MadeClassVariable):
        return value.is_known_to_its_bases()
    return value.source is not None and not isinstance(value.source, LocalSource)


def _death_is_noticed(value: VariableTracker | Unwrapped) -> bool:
    """Whether a value that the trace made holds an object at whose death code of the program runs, or a buffer can be resized."""
    todo: list[VariableTracker | Unwrapped] = [value]
    seen = set()
    while todo:
        part = todo.pop()
        if isinstance(part, Unwrapped):
            if isinstance(part.source, LocalSource) and may_run_code(part.value):
                return True
        elif part not in seen:
            seen.add(part)
            if isinstance(part, MemoryViewVariable):
                return True
            if part.source is None:
                todo.extend(part.children())
            elif has_finalizer(part):
                return True
    return False


def _handled_positions(stack: list[VariableTracker]) -> tuple[int, ...]:
    """For each exception that is being handled, the position on the stack of the value that holds it."""
    positions = []
    for index, value in enumerate(stack):
        if isinstance(value, HandledBefore):
            on_stack = index + 1 < len(stack) and stack[index + 1] is value.present
            positions.append(index + on_stack)
    return tuple(positions)
