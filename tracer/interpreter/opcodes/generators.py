"""Bodies of generators: a frame that yields is suspended at that instruction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.bytecode import Instruction
from tracer.interpreter.handlers import handles
from tracer.variables.iterators.generators import GeneratorVariable
from tracer.variables.values.constant import NONE

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame


@handles("RETURN_GENERATOR")
def return_generator(tx: Frame, inst: Instruction) -> None:
    """-> what the first resumption sends; the generator object was made by the call"""
    tx.push(NONE)


@handles("YIELD_VALUE")
def yield_value(tx: Frame, inst: Instruction) -> bool:
    """value ->, and the value sent in is pushed when the frame goes on"""
    tx.yielded = True
    return tx.finish(tx.pop())


@handles("GET_YIELD_FROM_ITER")
def get_yield_from_iter(tx: Frame, inst: Instruction) -> None:
    """iterable -> iterator"""
    if not isinstance(tx.stack[-1], GeneratorVariable):
        tx.push(tx.pop().iterate(tx))


@handles("SEND", until=(3, 12))
def send(tx: Frame, inst: Instruction) -> None:
    """iterator, sent -> iterator, item; after the loop: iterator, sent -> returned"""
    sent = tx.pop()
    iterator = tx.stack[-1]
    if isinstance(iterator, GeneratorVariable):
        item, returned = iterator.resume(tx, sent)
    elif sent.is_none():
        item, returned = iterator.next(tx), NONE
    else:
        item, returned = iterator.call_method(tx, "send", [sent], {}), NONE
    if item is not None:
        tx.push(item)
    else:
        tx.pop()
        tx.push(returned)
        tx.jump(inst)
