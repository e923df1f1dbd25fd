"""Jumps, conditional and not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from tracer import config
from tracer.bytecode import DIALECT, Instruction
from tracer.errors import Unsupported
from tracer.graph.operations.assertions import assert_in_graph
from tracer.graph_breaks import unsupported
from tracer.interpreter.handlers import Handler, handles
from tracer.protocol.variable import VariableTracker
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import boolean
from tracer.variables.values.symbolic import SymNodeVariable, apply, assume

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame


@handles("JUMP_FORWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def jump(tx: Frame, inst: Instruction) -> None:
    """goes on elsewhere"""
    tx.jump(inst)


@handles("JUMP_BACKWARD")
def jump_backward(tx: Frame, inst: Instruction) -> None:
    """goes on elsewhere, once more round a loop"""
    _once_more(tx)
    tx.jump(inst)


def _once_more(tx: Frame) -> None:
    """Checks, whenever a loop goes round again, that the trace does not get too long."""
    tx.trace.check_time()
    if tx.trace.steps > config.max_trace_instructions:
        unsupported("trace-too-long", value=config.max_trace_instructions)


def _is_false(tx: Frame, value: VariableTracker) -> bool:
    """Whether a value is false. If the body of `if value:` only raises, and data decide, the graph tests at run time that it is
    false."""
    if _is_tested_in_graph(tx, value):
        if _only_raises(tx):
            _test_not(tx, value)
            return True
        if _target_only_raises(tx):
            _test(tx, value)
            return False
    return not (_decided_unless_raising(tx, value, False) if isinstance(value, SymNodeVariable) else value.truth(tx))


def is_asked_by_jump(tx: Frame) -> bool:
    """Whether the next instruction is a jump that asks for the truth of the value on the stack. From 3.13 on, TO_BOOL or the
    comparison before it has done so for CPython; here the jump does, which knows what depends on it."""
    return tx.program.instructions[tx.pc].opname in ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE")


@handles("TO_BOOL")
def to_bool(tx: Frame, inst: Instruction) -> None:
    """value -> True or False"""
    if not is_asked_by_jump(tx):
        tx.push(boolean(tx.pop().truth(tx)))


def _is_none(tx: Frame, value: VariableTracker) -> bool:
    return value.is_none()


def _is_not_none(tx: Frame, value: VariableTracker) -> bool:
    return not _is_none(tx, value)


def _pop_jump(condition: Callable[[Frame, VariableTracker], bool]) -> Handler:
    def handler(tx: Frame, inst: Instruction) -> None:
        """value ->, and a jump if the condition holds"""
        if condition(tx, tx.pop()):
            if inst.target is not None and inst.target < tx.pc:
                _once_more(tx)
            tx.jump(inst)

    return handler


def _holds(tx: Frame, value: VariableTracker) -> bool:
    """The truth of a value. An `assert` of a tensor on the CPU is tested when the graph runs, where a failure is seen at once; so
    is one of a number that data decide."""
    if isinstance(value, SymNodeVariable):
        return _decided_unless_raising(tx, value, True)
    if not _is_tested_in_graph(tx, value):
        return value.truth(tx)
    message = _assertion_of(tx)
    if message is None and _target_only_raises(tx):
        _test_not(tx, value)
        return False
    if message is None and not _only_raises(tx):
        return value.truth(tx)
    _test(tx, value, message)
    return True


def _decided_unless_raising(tx: Frame, value: SymNodeVariable, quiet: bool) -> bool:
    """The truth of a number. Where only data decide it, and the program does nothing but raise unless it is `quiet`, that is
    assumed, and checked when the graph runs."""
    try:
        return value.truth(tx)
    except Unsupported:
        condition = value if quiet else apply(tx, torch.sym_not, value)
        if not _only_raises(tx) or not isinstance(condition, SymNodeVariable) or not tx.trace.raises.can_be_tested():
            raise
        if not assume(tx, condition):
            raise
        tx.trace.raises.note(tx.break_step())
    return quiet


def _is_tested_in_graph(tx: Frame, value: VariableTracker) -> bool:
    if not isinstance(value, TensorVariable) or value.known is not None:
        return False
    return bool(value.fake.device.type != "meta" and value.fake.numel() == 1) and tx.trace.raises.can_be_tested()


def _test(tx: Frame, value: VariableTracker, message: str | None = None) -> None:
    """Records the test that a tensor is true, behind which the program goes on. `message`: of its `assert`."""
    assert_in_graph(tx, value, message or f"the program raises at {tx.location()}")
    tx.trace.raises.note(tx.break_step())


def _test_not(tx: Frame, value: VariableTracker) -> None:
    _test(tx, value.call_method(tx, "logical_not", [], {}))


def _target_only_raises(tx: Frame) -> bool:
    """Whether the instructions at the target of the jump do nothing but raise. (Python 3.12 puts the body of an `if` there that
    ends a loop.)"""
    assert tx.inst.target is not None
    for one in tx.program.instructions[tx.inst.target :]:
        if one.opname in ("RAISE_VARARGS", "RERAISE"):
            return True
        if one.final or one.target is not None or one.opname.startswith(("YIELD", "SEND")):
            return False
    return False


def _only_raises(tx: Frame) -> bool:
    """Whether the instructions between here and the target of the jump do nothing but raise. If they are to run, the frame
    is run by CPython instead."""
    inst, program = tx.inst, tx.program
    if inst.target is None or inst.target <= tx.pc:
        return False
    block = range(tx.pc, inst.target)
    if program.instructions[block[-1]].opname not in ("RAISE_VARARGS", "RERAISE"):
        return False
    instructions = [program.instructions[index] for index in block]
    return all(one.target is None or one.target in block for one in instructions) and not any(
        one.opname.startswith(("RETURN", "YIELD", "SEND")) for one in instructions
    )


def _assertion_of(tx: Frame) -> str | None:
    """The constant message of the AssertionError that the instructions ahead raise."""
    start = tx.pc + (tx.program.instructions[tx.pc].opname == "NOT_TAKEN")
    ahead = tx.program.instructions[start : start + 3 + len(DIALECT.call_sequence)]
    names = [inst.opname for inst in ahead]
    if names[0] != "LOAD_ASSERTION_ERROR" and (names[0] != "LOAD_COMMON_CONSTANT" or ahead[0].oparg != 0):
        return None
    if names[1] == "RAISE_VARARGS":
        return "assertion error"
    if names[1:] == ["LOAD_CONST", *DIALECT.call_sequence, "RAISE_VARARGS"]:
        return str(ahead[1].argval)
    return None


for _suffix, _condition in (
    ("TRUE", _holds),
    ("FALSE", _is_false),
    ("NONE", _is_none),
    ("NOT_NONE", _is_not_none),
):
    for _direction in ("FORWARD", "BACKWARD"):
        handles(f"POP_JUMP_{_direction}_IF_{_suffix}", until=(3, 12))(_pop_jump(_condition))
    handles(f"POP_JUMP_IF_{_suffix}", since=(3, 12))(_pop_jump(_condition))


@handles("JUMP_IF_TRUE_OR_POP")
def jump_if_true_or_pop(tx: Frame, inst: Instruction) -> None:
    """value -> value, with a jump, if it is true; value -> otherwise"""
    if tx.stack[-1].truth(tx):
        tx.jump(inst)
    else:
        tx.pop()


@handles("JUMP_IF_FALSE_OR_POP")
def jump_if_false_or_pop(tx: Frame, inst: Instruction) -> None:
    """value -> value, with a jump, if it is false; value -> otherwise"""
    if tx.stack[-1].truth(tx):
        tx.pop()
    else:
        tx.jump(inst)
