"""Output code for the instruction that broke the graph: CPython runs it on real values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from tracer.bytecode.dialect import DIALECT
from tracer.bytecode.opcode_facts import FACTS
from tracer.codegen.codegen import Codegen
from tracer.graph_breaks import unsupported
from tracer.interpreter.translator import InstructionTranslator
from tracer.protocol.special_methods import SPECIAL_METHODS, bound_special_method
from tracer.protocol.variable import NullVariable, VariableTracker

if TYPE_CHECKING:
    from tracer.bytecode import Label

PushOperands = Callable[[int], None]  # pushes the given number of values from the top of the stack


@dataclasses.dataclass
class Ran:
    """What the emitted instruction leaves: the stack below its operands, the number of results, and where it may jump.
    `deferred`: only operands were pushed; `_step_over_stores` performs the instruction. `is_callee`: the result is one that a
    call is to take, with its NULL."""

    below: list[VariableTracker]
    results: int
    jump: Jump | None = None
    deferred: bool = False
    is_callee: bool = False


@dataclasses.dataclass
class Jump:
    """The jump target of an instruction; the stack and number of results after the instructions `passed` that stand there."""

    label: Label
    target: int
    stack: list[VariableTracker]
    results: int
    passed: tuple[str, ...] = ()


def push(cg: Codegen, value: VariableTracker) -> None:
    if isinstance(value, NullVariable):
        cg.asm.push_null()
    else:
        cg.load(value)


def run_instruction(cg: Codegen, frames: list[InstructionTranslator], push_operands: PushOperands) -> Ran:
    """Emits the instruction that the innermost frame stands at, on real values."""
    frame = frames[-1]
    inst = frame.inst
    asm = cg.asm
    stack = frame.stack
    if inst.opname == "CALL":
        return _run_call(cg, frame, push_operands)
    if inst.opname in _NEED_OWN_GLOBALS and frame.globals is not frames[0].globals:
        unsupported("cannot-reconstruct", value=f"{inst.opname} for the module of a callee")
    if inst.opname in _LOAD_ATTRIBUTES:
        return _run_load_attribute(cg, frame, push_operands)
    if inst.opname == "LOAD_SPECIAL":
        return _run_load_special(cg, frame, push_operands)
    if inst.opname in ("STORE_FAST", "DELETE_FAST"):
        count = int(inst.opname == "STORE_FAST")
        push_operands(count)
        return Ran(stack[: len(stack) - count], count, deferred=True)
    if inst.opname in ("STORE_DEREF", "DELETE_DEREF"):
        count = int(inst.opname == "STORE_DEREF")
        push_operands(count)
        cg.load(frame.cells[inst.argval])
        asm.emit("STORE_ATTR" if count else "DELETE_ATTR", "cell_contents")
        return Ran(stack[: len(stack) - count], 0)
    if inst.target is not None:
        return _run_jump(cg, frame, push_operands)
    uses = FACTS[inst.opcode].uses
    if uses is None:
        unsupported("unsupported-opcode", opcode=inst.opname)
    operands, results = uses(inst.arg or 0)
    push_operands(operands)
    if inst.opname == "LOAD_GLOBAL":
        asm.load_global(inst.argval)
        return Ran(list(stack), 1, is_callee=bool(inst.oparg & 1))
    asm.emit_copy(inst)
    return Ran(list(stack[: len(stack) - operands]), results)


def _run_call(cg: Codegen, frame: InstructionTranslator, push_operands: PushOperands) -> Ran:
    count = frame.inst.arg
    assert count is not None
    push_operands(count + 2)
    cg.asm.call(count, frame.keyword_names)
    return Ran(list(frame.stack[: -count - 2]), 1)


#: How many values these take. LOAD_METHOD always loads for a call.
_LOAD_ATTRIBUTES = {"LOAD_METHOD": 1, "LOAD_ATTR": 1, "LOAD_SUPER_ATTR": 3}


def _run_load_attribute(cg: Codegen, frame: InstructionTranslator, push_operands: PushOperands) -> Ran:
    inst = frame.inst
    count, flags = _LOAD_ATTRIBUTES[inst.opname], FACTS[inst.opcode].flags
    push_operands(count)
    if flags:  # `super()` would look for its arguments in the frame, which is another here
        cg.asm.emit(inst.opname, (False, *(True,) * (flags - 1), inst.argval))
    else:
        cg.asm.emit("LOAD_ATTR", inst.argval)
    below = frame.stack[: len(frame.stack) - count]
    return Ran(below, 1, is_callee=bool(inst.oparg & 1) if flags else inst.opname == "LOAD_METHOD")


def _run_load_special(cg: Codegen, frame: InstructionTranslator, push_operands: PushOperands) -> Ran:
    """By a function: the instruction may leave the function of a method and its argument, of which the second may be NULL."""
    cg.call_object(bound_special_method, lambda: push_operands(1), lambda: cg.load_const(SPECIAL_METHODS[frame.inst.oparg]))
    return Ran(frame.stack[:-1], 1, is_callee=True)


def _run_jump(cg: Codegen, frame: InstructionTranslator, push_operands: PushOperands) -> Ran:
    asm, inst = cg.asm, frame.inst
    assert inst.target is not None
    label = asm.label()
    stack = frame.stack
    if inst.opname == "FOR_ITER":  # the iterator stays
        push(cg, stack[-1])
    else:
        push_operands(1)
    below = list(stack[:-1])
    if inst.opname == "FOR_ITER":
        asm.emit("FOR_ITER", label)
        asm.swap(2)
        asm.pop()
        return Ran(list(stack), 1, Jump(label, inst.target, below, 0, DIALECT.loop_end))
    name = inst.opname.replace("_FORWARD", "").replace("_BACKWARD", "")
    if name.startswith("POP_JUMP"):
        if not name.endswith("NONE"):
            asm.truth()
        asm.emit(name, label)
        return Ran(below, 0, Jump(label, inst.target, below, 0))
    if name.endswith("_OR_POP"):
        asm.emit(name, label)
        return Ran(below, 0, Jump(label, inst.target, below, 1))
    unsupported("unsupported-opcode", opcode=inst.opname)


_NEED_OWN_GLOBALS = ("LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "IMPORT_NAME")
