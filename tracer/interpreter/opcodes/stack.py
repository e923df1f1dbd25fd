"""Opcodes that only move values on the stack, and what happens when a frame lets go of a value.

A handler gets its operands from `tx.stack`; one that ends the frame returns True. The names of opcodes are CPython's, of all
versions.

CPython runs code of the program (`__del__`, `finally` in a generator) when the last reference to an object goes. A trace cannot
do that in the middle of a graph: the functions `drop_...` break it there. Mostly it is an argument of a resume function that a
frame may hold the last reference to, because the code before a break hands it over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.bytecode import DIALECT, Instruction, is_resume_code, is_stack_argument
from tracer.bytecode.slots import argument_slots
from tracer.effects.lifetimes import has_finalizer
from tracer.graph_breaks import unsupported
from tracer.guards.lifetimes import EndsQuietly, may_run_code
from tracer.interpreter.handlers import handles
from tracer.protocol.lazy import Unwrapped
from tracer.protocol.variable import NULL, NullVariable, VariableTracker
from tracer.sources.roots import LocalSource

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame


@handles("NOP", "RESUME", "CACHE", "PRECALL", "EXTENDED_ARG", "COPY_FREE_VARS", "NOT_TAKEN")
def nothing(tx: Frame, inst: Instruction) -> None:
    """Free variables are in place when a frame begins; the others are there for CPython's own dispatch alone."""


@handles("POP_TOP")
def pop_top(tx: Frame, inst: Instruction) -> None:
    """value ->"""
    value = tx.stack.pop()
    # The stack of a frame that broke is handed to its resume function as arguments; this may be the last reference.
    if isinstance(value.source, LocalSource) and is_stack_argument(value.source.local_name) and has_finalizer(value):
        unsupported("abandoned-generator", value=value.describe())


def drop_local(tx: Frame, name: str) -> None:
    """A local is about to hold something else, or nothing: called by STORE_FAST and DELETE_FAST (`names`)."""
    value = tx.locals.get(name)
    if value is not None:
        drop_argument(tx, value, f"the local {name!r}", 1)


def drop_argument(tx: Frame, value: VariableTracker | Unwrapped, what: str, times: int = 0) -> None:
    """Called before a value is dropped, by a local (`times` is 1) or by what is not counted (0). If frames hold it just `times`
    times, and code of the program may run when it dies, the graph breaks here, and that code runs in CPython."""
    if not isinstance(value.source, LocalSource):
        return
    frames = tx.frames()
    slots = argument_slots(frames[0].code)
    if not is_resume_code(frames[0].code) or value.source.local_name not in slots:
        return
    held = [each for frame in frames for each in (*frame.stack, *frame.locals.values())]
    if sum(each is value for each in held) != times:
        return
    if may_run_code(tx.trace.builder.arguments[slots.index(value.source.local_name)]):
        unsupported("abandoned-generator", value=what)
    # No other guard is on what the value leads to where nobody has read it; what tracebacks hold nobody reads.
    if isinstance(value, Unwrapped) or issubclass(value.python_type(), BaseException):
        tx.guard(EndsQuietly(value.source))


def drop_contents(tx: Frame, name: str) -> None:
    """As `drop_local`, of a cell. How often frames hold its contents is not counted."""
    value = tx.cells[name].contents
    if value is None or value.source is None:
        return
    if may_run_code(value.value) if isinstance(value, Unwrapped) else has_finalizer(value):
        unsupported("abandoned-generator", value=f"the local {name!r}")


def push_callee(tx: Frame, value: VariableTracker) -> None:
    """-> what a call takes below its arguments"""
    tx.stack += (NULL, value) if DIALECT.null_first else (value, NULL)


def pop_callee(tx: Frame) -> tuple[VariableTracker, list[VariableTracker]]:
    """The callee, and the argument that lies in the place of its NULL (as the argument of a decorator does)."""
    upper, lower = tx.stack.pop(), tx.stack.pop()
    if DIALECT.null_first and isinstance(lower, NullVariable):
        return upper, []
    return lower, [] if isinstance(upper, NullVariable) else [upper]


@handles("PUSH_NULL")
def push_null(tx: Frame, inst: Instruction) -> None:
    """-> NULL"""
    tx.stack.append(NULL)


@handles("COPY")
def copy(tx: Frame, inst: Instruction) -> None:
    """stack[-i] -> stack[-i], stack[-i]"""
    tx.stack.append(tx.stack[-inst.oparg])


@handles("SWAP")
def swap(tx: Frame, inst: Instruction) -> None:
    """exchanges stack[-1] and stack[-i]"""
    stack, i = tx.stack, inst.oparg
    stack[-1], stack[-i] = stack[-i], stack[-1]


@handles("RETURN_VALUE")
def return_value(tx: Frame, inst: Instruction) -> bool:
    """value ->. Ends the frame; `yielded` tells a generator that is suspended from one that returned."""
    tx.yielded = False
    return tx.finish(tx.stack.pop())


@handles("RETURN_CONST", until=(3, 14))
def return_const(tx: Frame, inst: Instruction) -> bool:
    """ends the frame, with a constant"""
    tx.yielded = False
    return tx.finish(tx.trace.constant(inst.argval))
