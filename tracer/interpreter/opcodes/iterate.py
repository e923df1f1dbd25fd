"""Iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.bytecode import Instruction
from tracer.interpreter.handlers import handles

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame


@handles("GET_ITER")
def get_iter(tx: Frame, inst: Instruction) -> None:
    """iterable -> iterator"""
    tx.loops[inst.index + 1] = tx.step
    tx.push(tx.pop().iterate(tx))


@handles("FOR_ITER", until=(3, 12))
def for_iter(tx: Frame, inst: Instruction) -> None:
    """iterator -> iterator, item; after the loop: iterator ->"""
    item = tx.stack[-1].next(tx)
    if item is None:
        tx.pop()
        tx.jump(inst)
    else:
        tx.push(item)
