"""Opcodes that only move values on the stack."""
from __future__ import annotations

import types
from typing import TYPE_CHECKING

from tracer.bytecode import Instruction, is_resume_code, is_stack_argument
from tracer.graph_breaks import unsupported
from tracer.interpreter.registry import handles
from tracer.sources import LocalSource
from tracer.sources.reading import type_dict, type_mro
from tracer.variables.base import NULL, VariableTracker
from tracer.variables.lazy import Unwrapped
from tracer.variables.lookups import lookup
from tracer.variables.objects import UserObjectVariable
from tracer.variables.opaque import OpaqueVariable

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame


@handles("NOP", "RESUME", "CACHE", "PRECALL", "EXTENDED_ARG", "MAKE_CELL", "COPY_FREE_VARS")
def nothing(tx: Frame, inst: Instruction) -> None:
    """Cells and free variables are in place when a frame begins."""


@handles("POP_TOP")
def pop_top(tx: Frame, inst: Instruction) -> None:
    """value ->"""
    value = tx.stack.pop()
    if isinstance(value.source, LocalSource) and is_stack_argument(value.source.local_name) and _is_finalised(value):
        unsupported("abandoned-generator", value=value.describe())


def drop_local(tx: Frame, name: str) -> None:
    """A local is about to hold something else, or nothing. If code of the program may run then, because a resume function was
    handed the last reference, it runs behind a break."""
    value = tx.locals.get(name)
    if value is None or not isinstance(value.source, LocalSource) or not _may_be_finalised(value):
        return
    frames = tx.frames()
    held = [each for frame in frames for each in (*frame.stack, *frame.locals.values())]
    if is_resume_code(frames[0].code) and sum(each is value for each in held) == 1:
        unsupported("abandoned-generator", value=f"the local {name!r}")


def drop_contents(tx: Frame, name: str) -> None:
    """As `drop_local`, of a cell."""
    value = tx.cells[name].contents
    if value is not None and value.source is not None and _may_be_finalised(value):
        unsupported("abandoned-generator", value=f"the local {name!r}")


def _may_be_finalised(value: VariableTracker | Unwrapped) -> bool:
    """One that nobody has read is not guarded: a break too many does no harm."""
    if not isinstance(value, Unwrapped):
        return _is_finalised(value)
    cls = type(value.value)
    return cls is types.GeneratorType or any("__del__" in type_dict(base) for base in type_mro(cls))


def _is_finalised(value: VariableTracker) -> bool:
    """Whether code of the program may run when the last reference to a value goes, which a resume function may have."""
    return isinstance(value, (OpaqueVariable, UserObjectVariable)) and (
        value.cls is types.GeneratorType or lookup(value.cls, "__del__")[0] is not None
    )


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
