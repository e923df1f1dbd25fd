"""Jumps, conditional and not."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from tracer import config
from tracer.bytecode import Instruction
from tracer.graph_breaks import unsupported
from tracer.interpreter.registry import Handler, handles
from tracer.variables.base import VariableTracker
from tracer.variables.tensor import TensorVariable

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame


@handles("JUMP_FORWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def jump(tx: Frame, inst: Instruction) -> None:
    """goes on elsewhere"""
    tx.jump(inst)


@handles("JUMP_BACKWARD")
def jump_backward(tx: Frame, inst: Instruction) -> None:
    """goes on elsewhere, once more round a loop"""
    if tx.trace.steps > config.max_trace_instructions:
        unsupported("trace-too-long", value=config.max_trace_instructions)
    tx.jump(inst)


def _is_false(tx: Frame, value: VariableTracker) -> bool:
    return not value.truth(tx)


def _is_none(tx: Frame, value: VariableTracker) -> bool:
    return value.is_constant() and value.constant() is None


def _is_not_none(tx: Frame, value: VariableTracker) -> bool:
    return not _is_none(tx, value)


def _pop_jump(condition: Callable[[Frame, VariableTracker], bool]) -> Handler:
    def handler(tx: Frame, inst: Instruction) -> None:
        """value ->, and a jump if the condition holds"""
        if condition(tx, tx.pop()):
            tx.jump(inst)

    return handler


def _holds(tx: Frame, value: VariableTracker) -> bool:
    """The truth of a value. What an `assert` says of a tensor is tested when the graph runs; a CPU tells of it at once."""
    message = _assertion_of(tx) if isinstance(value, TensorVariable) and value.known is None else None
    if message is None or value.fake.device.type != "cpu" or value.fake.numel() != 1:  # type: ignore[attr-defined]
        return value.truth(tx)
    tx.output.call_function(torch._assert_async, (value.graph_arg(), message), {})
    return True


def _assertion_of(tx: Frame) -> str | None:
    """The constant message of the AssertionError that the instructions ahead raise."""
    ahead = tx.program.instructions[tx.pc : tx.pc + 5]
    names = [inst.opname for inst in ahead]
    if names[:2] == ["LOAD_ASSERTION_ERROR", "RAISE_VARARGS"]:
        return "assertion error"
    if names == ["LOAD_ASSERTION_ERROR", "LOAD_CONST", "PRECALL", "CALL", "RAISE_VARARGS"]:
        return str(ahead[1].argval)
    return None


for _suffix, _condition in (
    ("TRUE", _holds),
    ("FALSE", _is_false),
    ("NONE", _is_none),
    ("NOT_NONE", _is_not_none),
):
    for _direction in ("FORWARD", "BACKWARD"):
        handles(f"POP_JUMP_{_direction}_IF_{_suffix}")(_pop_jump(_condition))


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
