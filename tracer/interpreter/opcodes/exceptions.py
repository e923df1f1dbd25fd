"""Raising and handling. `trace.handled` is the exception being handled; the one that was handled before lies on the stack, as in
CPython."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.bytecode import Instruction
from tracer.graph_breaks import unsupported
from tracer.interpreter.handlers import handles
from tracer.interpreter.opcodes.stack import drop_argument
from tracer.protocol.variable import ObservedException, VariableTracker, is_exception
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.exceptions.exception_groups import match_star, raised_behind_star
from tracer.variables.exceptions.exceptions import ExceptionVariable, HandledBefore
from tracer.variables.values.constant import boolean

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame


@handles("RAISE_VARARGS")
def raise_varargs(tx: Frame, inst: Instruction) -> None:
    """(exception,) (cause) ->"""
    if inst.arg == 0:
        handled = tx.handled_exception()
        if handled is None:
            tx.raise_error(RuntimeError, "No active exception to reraise")
        raise ObservedException(handled, again=True)
    cause = tx.pop() if inst.arg == 2 else None
    value = tx.exception_instance(tx.pop())
    if cause is not None:
        _set_cause(tx, value, cause)
    tx.raise_value(value)


def _set_cause(tx: Frame, value: VariableTracker, cause: VariableTracker) -> None:
    if not cause.is_none():
        cls = cause.identity()
        if not (isinstance(cls, type) and issubclass(cls, BaseException)) and not issubclass(cause.python_type(), BaseException):
            tx.raise_error(TypeError, "exception causes must derive from BaseException")
        cause = tx.exception_instance(cause)
    assert isinstance(value, ExceptionVariable)
    value.set_cause(tx, cause)


@handles("PUSH_EXC_INFO")
def push_exc_info(tx: Frame, inst: Instruction) -> None:
    """exception -> exception handled before, exception"""
    value = tx.pop()
    handled = tx.trace.handled
    tx.push(HandledBefore(None if handled is tx.handled_outside else handled, value))
    tx.push(value)
    tx.trace.handle(value)


@handles("POP_EXCEPT")
def pop_except(tx: Frame, inst: Instruction) -> None:
    """exception handled before ->"""
    before = tx.pop()
    assert isinstance(before, HandledBefore)
    outside = tx.handled_outside if before.value is None else before.value
    assert outside is not None
    drop_argument(tx, tx.trace.handled, "the exception that was handled")
    tx.trace.handle(outside)


@handles("CHECK_EXC_MATCH")
def check_exc_match(tx: Frame, inst: Instruction) -> None:
    """exception, class -> exception, matches"""
    pattern = tx.pop()
    classes = pattern.items(tx) if isinstance(pattern, TupleVariable) else [pattern]
    caught: list[type[BaseException]] = []
    for cls in classes:
        if not isinstance(cls, ClassVariable) or not issubclass(cls.value, BaseException):
            unsupported("exception-in-trace", error="an except clause with something else than a class")
        caught.append(cls.value)
    tx.push(boolean(is_exception(tx.stack[-1], tuple(caught))))


@handles("RERAISE")
def reraise(tx: Frame, inst: Instruction) -> None:
    """(lasti,) exception ->"""
    value = tx.pop()
    raise ObservedException(value, again=True)


@handles("CHECK_EG_MATCH")
def check_eg_match(tx: Frame, inst: Instruction) -> None:
    """exception, class -> rest, match; or, where nothing matches, exception, None"""
    pattern = tx.pop()
    rest, match = match_star(tx, tx.stack[-1], pattern)
    if not match.is_none():
        tx.stack[-1] = rest
        _handle_instead(tx, match)
    tx.push(match)


def _handle_instead(tx: Frame, match: VariableTracker) -> None:
    """sys.exception() is now the part that an except* clause took."""
    index = max(index for index, value in enumerate(tx.stack) if isinstance(value, HandledBefore))
    before = tx.stack[index]
    assert isinstance(before, HandledBefore)
    tx.stack[index] = HandledBefore(before.value, match)
    tx.trace.handle(match)


@handles("PREP_RERAISE_STAR")
def prep_reraise_star(tx: Frame, inst: Instruction) -> None:
    """exception, list of what the except* clauses raised or did not catch -> the exception to raise after them, or None"""
    raised = tx.pop().unpack(tx)
    tx.push(raised_behind_star(tx, tx.pop(), raised))
