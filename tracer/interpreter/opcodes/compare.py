"""Comparison, identity and membership."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.bytecode import DIALECT, Instruction
from tracer.interpreter.handlers import handles
from tracer.interpreter.opcodes.jumps import is_asked_by_jump
from tracer.variables.values.constant import boolean

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame


@handles("COMPARE_OP")
def compare_op(tx: Frame, inst: Instruction) -> None:
    """left, right -> left op right"""
    right, left = tx.pop(), tx.pop()
    value = tx.compare(inst.argval, left, right)
    if inst.oparg & DIALECT.compare_to_bool and not is_asked_by_jump(tx):
        value = boolean(value.truth(tx))
    tx.push(value)


@handles("IS_OP")
def is_op(tx: Frame, inst: Instruction) -> None:
    """left, right -> left is (not) right"""
    right, left = tx.pop(), tx.pop()
    tx.push(boolean(tx.is_same(left, right) is not bool(inst.arg)))


@handles("CONTAINS_OP")
def contains_op(tx: Frame, inst: Instruction) -> None:
    """item, container -> item (not) in container"""
    container, item = tx.pop(), tx.pop()
    found = container.contains(tx, item)
    tx.push(boolean(not found.truth(tx)) if inst.arg else found)
