"""Opcodes that only move values on the stack."""
from __future__ import annotations

import types
from typing import TYPE_CHECKING

from tracer.bytecode import Instruction, is_stack_argument
from tracer.graph_breaks import unsupported
from tracer.interpreter.registry import handles
from tracer.sources import LocalSource
from tracer.variables.base import NULL, VariableTracker
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


def _is_finalised(value: VariableTracker) -> bool:
    """Whether code of the program may run when the last reference to a value goes, which the stack of a resume function may
    have."""
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
