"""Output code for the instruction that broke the graph: CPython runs it on real values."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from tracer.bytecode import Instruction
from tracer.codegen.codegen import Codegen
from tracer.graph_breaks import unsupported
from tracer.interpreter.translator import InstructionTranslator
from tracer.protocol.variable import NullVariable, VariableTracker

if TYPE_CHECKING:
    from tracer.bytecode import Label

PushOperands = Callable[[int], None]  # pushes the given number of values from the top of the stack


@dataclasses.dataclass
class Ran:
    """What the emitted instruction leaves: the stack below its operands, the number of results, and where it may jump.
    `deferred`: only operands were pushed; `_step_over_stores` performs the instruction."""

    below: list[VariableTracker]
    results: int
    jump: Jump | None = None
    deferred: bool = False


@dataclasses.dataclass
class Jump:
    """The jump target of an instruction, and the stack and number of results there."""

    label: Label
    target: int
    stack: list[VariableTracker]
    results: int


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
    if inst.opname == "LOAD_METHOD":  # NULL, obj.name
        push_operands(1)
        asm.emit("LOAD_ATTR", inst.argval)
        return Ran([*stack[:-1], NULL_VALUE], 1)
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
    operands, results = _stack_use(inst, len(stack))
    push_operands(operands)
    if inst.opname == "LOAD_GLOBAL":
        asm.emit("LOAD_GLOBAL", (False, inst.argval))
        below = [*stack, NULL_VALUE] if inst.oparg & 1 else list(stack)
        return Ran(below, 1)
    asm.emit_copy(inst)
    return Ran(list(stack[: len(stack) - operands]), results)


def _run_call(cg: Codegen, frame: InstructionTranslator, push_operands: PushOperands) -> Ran:
    count = frame.inst.arg
    assert count is not None
    push_operands(count + 2)
    cg.asm.call(count, frame.keyword_names)
    return Ran(list(frame.stack[: -count - 2]), 1)


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
        return Ran(list(stack), 1, Jump(label, inst.target, below, 0))
    name = inst.opname.replace("_FORWARD", "").replace("_BACKWARD", "")
    if name.startswith("POP_JUMP"):
        asm.emit(f"POP_JUMP_FORWARD{name[len('POP_JUMP') :]}", label)
        return Ran(below, 0, Jump(label, inst.target, below, 0))
    if name.endswith("_OR_POP"):
        asm.emit(name, label)
        return Ran(below, 0, Jump(label, inst.target, below, 1))
    unsupported("unsupported-opcode", opcode=inst.opname)


_NEED_OWN_GLOBALS = ("LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", "IMPORT_NAME")
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
