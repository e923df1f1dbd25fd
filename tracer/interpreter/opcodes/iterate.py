"""Iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.bytecode import DIALECT, Instruction
from tracer.interpreter.handlers import breaks, handles
from tracer.interpreter.loops import begin_loop, loop_head
from tracer.interpreter.opcodes.stack import pop_top

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame


@handles("GET_ITER")
def get_iter(tx: Frame, inst: Instruction) -> None:
    """iterable -> iterator"""
    begin_loop(tx, loop_head(tx.program, inst.index))
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


@handles("FOR_ITER", since=(3, 12), until=(3, 14))
def for_iter_or_skip(tx: Frame, inst: Instruction) -> None:
    """iterator -> iterator, item; after the loop: iterator ->, and END_FOR (in 3.13 POP_TOP, too) is skipped"""
    item = tx.stack[-1].next(tx)
    if item is None:
        tx.pop()
        tx.jump(inst)
        tx.pc += len(DIALECT.loop_end)
    else:
        tx.push(item)


@handles("FOR_ITER", since=(3, 14))
def for_iter_or_end(tx: Frame, inst: Instruction) -> None:
    """iterator -> iterator, item; after the loop: iterator -> iterator, and END_FOR is skipped"""
    item = tx.stack[-1].next(tx)
    if item is None:
        tx.jump(inst)
        tx.pc += 1
    else:
        tx.push(item)


@handles("POP_ITER")
def pop_iter(tx: Frame, inst: Instruction) -> None:
    """iterator ->"""
    pop_top(tx, inst)


breaks("END_FOR", since=(3, 12), why="the FOR_ITER that jumps there passes over it")
