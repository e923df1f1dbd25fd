"""Opcodes that only move values on the stack."""
from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.bytecode import Instruction
from tracer.interpreter.registry import handles
from tracer.variables.base import NULL

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame


@handles("NOP", "RESUME", "CACHE", "PRECALL", "EXTENDED_ARG", "MAKE_CELL", "COPY_FREE_VARS")
def nothing(tx: Frame, inst: Instruction) -> None:
    """Cells and free variables are in place when a frame begins."""


@handles("POP_TOP")
def pop_top(tx: Frame, inst: Instruction) -> None:
    """value ->"""
    tx.stack.pop()


@handles("PUSH_NULL")
def push_null(tx: Frame, inst: Instruction) -> None:
    """-> NULL"""
    tx.stack.append(NULL)


@handles("COPY")
def copy(tx: Frame, inst: Instruction) -> None:
    """stack[-i] -> stack[-i], stack[-i]"""
    tx.stack.append(tx.stack[-inst.arg])  # type: ignore[operator]


@handles("SWAP")
def swap(tx: Frame, inst: Instruction) -> None:
    """exchanges stack[-1] and stack[-i]"""
    stack, i = tx.stack, inst.arg
    assert i is not None
    stack[-1], stack[-i] = stack[-i], stack[-1]


@handles("RETURN_VALUE")
def return_value(tx: Frame, inst: Instruction) -> bool:
    """value ->"""
    tx.yielded = False
    return tx.finish(tx.stack.pop())
