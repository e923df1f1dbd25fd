"""Unary and binary operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.bytecode import Instruction
from tracer.interpreter.handlers import handles
from tracer.variables.values.constant import boolean

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame


@handles("BINARY_OP")
def binary_op(tx: Frame, inst: Instruction) -> None:
    """left, right -> left op right"""
    right, left = tx.pop(), tx.pop()
    op: str = inst.argval
    if op == "[]":  # Python 3.14
        tx.push(left.get_item(tx, right))
    elif op.endswith("="):
        tx.push(tx.inplace(op[:-1], left, right))
    else:
        tx.push(tx.binary(op, left, right))


@handles("UNARY_NEGATIVE")
def unary_negative(tx: Frame, inst: Instruction) -> None:
    """x -> -x"""
    tx.push(tx.unary("-", tx.pop()))


@handles("UNARY_POSITIVE")
def unary_positive(tx: Frame, inst: Instruction) -> None:
    """x -> +x"""
    tx.push(tx.unary("+", tx.pop()))


@handles("UNARY_INVERT")
def unary_invert(tx: Frame, inst: Instruction) -> None:
    """x -> ~x"""
    tx.push(tx.unary("~", tx.pop()))


@handles("UNARY_NOT")
def unary_not(tx: Frame, inst: Instruction) -> None:
    """x -> not x"""
    tx.push(boolean(not tx.pop().truth(tx)))
