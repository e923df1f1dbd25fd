"""Making functions and classes."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, cast

from tracer.bytecode import Instruction
from tracer.interpreter.handlers import handles
from tracer.sources.roots import BuiltinSource
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.functions.python_functions import CellVariable, NestedFunctionVariable

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame

_DEFAULTS, _KWDEFAULTS, _ANNOTATIONS, _CLOSURE = 1, 2, 4, 8


@handles("MAKE_FUNCTION", until=(3, 13))
def make_function(tx: Frame, inst: Instruction) -> None:
    """(defaults,) (kwdefaults,) (annotations,) (closure,) code -> function"""
    flags = inst.oparg
    code = tx.pop().constant()
    closure = cast(list[CellVariable], tx.pop().unpack(tx)) if flags & _CLOSURE else []
    annotations = tx.pop() if flags & _ANNOTATIONS else None
    kwdefaults = tx.pop() if flags & _KWDEFAULTS else None
    defaults = tx.pop() if flags & _DEFAULTS else None
    tx.push(
        NestedFunctionVariable(
            code,
            tx.globals,
            tx.function,
            code.co_qualname,
            defaults,
            kwdefaults,
            annotations,
            closure,
        )
    )


@handles("LOAD_BUILD_CLASS")
def load_build_class(tx: Frame, inst: Instruction) -> None:
    """-> __build_class__"""
    tx.push(CallableVariable(builtins.__build_class__, BuiltinSource("__build_class__")))
