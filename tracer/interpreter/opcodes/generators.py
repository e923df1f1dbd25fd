"""Bodies of generators: a frame that yields is suspended at that instruction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.bytecode import Instruction
from tracer.interpreter.handlers import handles
from tracer.protocol.variable import ObservedException, VariableTracker, is_exception
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
    item, returned = _sent(tx, tx.pop())
    if item is not None:
        tx.push(item)
    else:
        tx.pop()
        tx.push(returned)
        tx.jump(inst)


@handles("SEND", since=(3, 12))
def send_or_end(tx: Frame, inst: Instruction) -> None:
    """iterator, sent -> iterator, item; after the loop: iterator, sent -> iterator, returned"""
    item, returned = _sent(tx, tx.pop())
    if item is not None:
        tx.push(item)
    else:
        tx.push(returned)
        tx.jump(inst)


def _sent(tx: Frame, sent: VariableTracker) -> tuple[VariableTracker | None, VariableTracker]:
    """(item, NONE) or, after the loop, (None, what the iterator on the stack returned)"""
    iterator = tx.stack[-1]
    if isinstance(iterator, GeneratorVariable):
        return iterator.resume(tx, sent)
    if sent.is_none():
        return iterator.next(tx), NONE
    return iterator.call_method(tx, "send", [sent], {}), NONE


@handles("END_SEND")
def end_send(tx: Frame, inst: Instruction) -> None:
    """iterator, returned -> returned"""
    returned = tx.pop()
    tx.pop()
    tx.push(returned)


@handles("CLEANUP_THROW")
def cleanup_throw(tx: Frame, inst: Instruction) -> None:
    """iterator, sent, exception -> None, what a StopIteration that was thrown into a `yield from` carries"""
    exception = tx.stack[-1]
    if not is_exception(exception, StopIteration):
        raise ObservedException(exception, again=True)
    tx.pop_many(3)
    tx.push(NONE)
    tx.push(exception.get_attr(tx, "value"))
