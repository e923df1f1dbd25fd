"""with statements. The bound `__exit__` lies on the stack as a value, so that a block needs no other bookkeeping."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.bytecode import Instruction
from tracer.interpreter.handlers import breaks, handles
from tracer.protocol.lookups import defines
from tracer.protocol.variable import VariableTracker
from tracer.variables.exceptions.exceptions import ExceptionVariable
from tracer.variables.objects.objects import UserObjectVariable

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame


@handles("BEFORE_WITH")
def before_with(tx: Frame, inst: Instruction) -> None:
    """manager -> manager.__exit__, manager.__enter__()"""
    manager = tx.pop()
    enter, leave = special_method(tx, manager, "__enter__"), special_method(tx, manager, "__exit__")
    tx.push(leave)
    tx.push(enter.call(tx, [], {}))


def special_method(tx: Frame, manager: VariableTracker, name: str) -> VariableTracker:
    if isinstance(manager, UserObjectVariable):
        method = manager.special(tx, name)
    else:
        method = manager.get_attr(tx, name) if defines(manager.python_type(), name) else None
    if method is None:
        kind, missed = manager.python_type().__name__, " (missed __exit__ method)" if name == "__exit__" else ""
        tx.raise_error(TypeError, f"{kind!r} object does not support the context manager protocol{missed}")
    return method


@handles("WITH_EXCEPT_START")
def with_except_start(tx: Frame, inst: Instruction) -> None:
    """exit, lasti, before, exception -> exit, lasti, before, exception, exit(type, exception, traceback)"""
    value = tx.stack[-1]
    leave = tx.stack[-4]
    assert isinstance(value, ExceptionVariable)
    details = [tx.class_variable(value.cls, value), value, value.field(tx, "__traceback__")]
    tx.push(leave.call(tx, details, {}))


breaks(
    "BEFORE_ASYNC_WITH", "GET_AITER", "GET_ANEXT", "END_ASYNC_FOR", "GET_AWAITABLE", "ASYNC_GEN_WRAP",
    why="found in coroutines and asynchronous generators only, which an event loop resumes: CPython runs them",
)  # fmt: skip
