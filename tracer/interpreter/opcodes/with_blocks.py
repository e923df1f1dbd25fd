"""with statements. The bound `__exit__` lies on the stack as a value, so that a block needs no other bookkeeping."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.bytecode import Instruction
from tracer.interpreter.handlers import breaks, handles
from tracer.interpreter.opcodes.stack import push_callee
from tracer.protocol.lookups import defines
from tracer.protocol.special_methods import SPECIAL_METHODS, missing_words
from tracer.protocol.variable import NullVariable, VariableTracker
from tracer.variables.exceptions.exceptions import ExceptionVariable
from tracer.variables.objects.objects import UserObjectVariable

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame


@handles("BEFORE_WITH")
def before_with(tx: Frame, inst: Instruction) -> None:
    """manager -> manager.__exit__, manager.__enter__()"""
    manager = tx.pop()
    words = f"{manager.python_type().__name__!r} object does not support the context manager protocol"
    enter = special_method(tx, manager, "__enter__", words)
    tx.push(special_method(tx, manager, "__exit__", f"{words} (missed __exit__ method)"))
    tx.push(enter.call(tx, [], {}))


def special_method(tx: Frame, manager: VariableTracker, name: str, words: str) -> VariableTracker:
    """The method, bound. `words`: of the TypeError where there is none."""
    if isinstance(manager, UserObjectVariable):
        method = manager.special(tx, name)
    else:
        method = manager.get_attr(tx, name) if defines(manager.python_type(), name) else None
    if method is None:
        tx.raise_error(TypeError, words)
    return method


@handles("LOAD_SPECIAL")
def load_special(tx: Frame, inst: Instruction) -> None:
    """manager -> manager.__enter__ or another special method, for a call as its callee"""
    name, manager = SPECIAL_METHODS[inst.oparg], tx.pop()
    push_callee(tx, special_method(tx, manager, name, missing_words(manager.python_type(), name)))


@handles("WITH_EXCEPT_START", until=(3, 14))
def with_except_start(tx: Frame, inst: Instruction) -> None:
    """exit, lasti, before, exception -> exit, lasti, before, exception, exit(type, exception, traceback)"""
    _leave_with(tx, tx.stack[-4])


@handles("WITH_EXCEPT_START", since=(3, 14))
def with_except_start_of_callee(tx: Frame, inst: Instruction) -> None:
    """exit as a callee, lasti, before, exception -> the same, exit(type, exception, traceback)"""
    assert isinstance(tx.stack[-4], NullVariable)  # LOAD_SPECIAL has bound the method
    _leave_with(tx, tx.stack[-5])


def _leave_with(tx: Frame, leave: VariableTracker) -> None:
    value = tx.stack[-1]
    assert isinstance(value, ExceptionVariable)
    details = [tx.class_variable(value.cls, value), value, value.field(tx, "__traceback__")]
    tx.push(leave.call(tx, details, {}))


breaks(
    "BEFORE_ASYNC_WITH", "GET_AITER", "GET_ANEXT", "END_ASYNC_FOR", "GET_AWAITABLE", "ASYNC_GEN_WRAP",
    why="found in coroutines and asynchronous generators only, which an event loop resumes: CPython runs them",
)  # fmt: skip
