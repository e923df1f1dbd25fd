"""Making functions and classes."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, cast

from tracer.bytecode import Instruction
from tracer.interpreter.handlers import handles
from tracer.protocol.variable import VariableTracker
from tracer.sources.roots import BuiltinSource
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.functions.python_functions import CellVariable, NestedFunctionVariable

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame

#: By the bit of the argument that stands for it, in the order in which they lie on the stack, the top first.
_PARTS = {16: "annotate", 8: "closure", 4: "annotations", 2: "kwdefaults", 1: "defaults"}


@handles("MAKE_FUNCTION", until=(3, 13))
def make_function(tx: Frame, inst: Instruction) -> None:
    """(defaults,) (kwdefaults,) (annotations,) (closure,) code -> function"""
    function = _function_of_code(tx)
    for bit in _PARTS:
        if inst.oparg & bit:
            _set(tx, function, bit, tx.pop())
    tx.push(function)


@handles("MAKE_FUNCTION", since=(3, 13))
def make_plain_function(tx: Frame, inst: Instruction) -> None:
    """code -> function"""
    tx.push(_function_of_code(tx))


@handles("SET_FUNCTION_ATTRIBUTE")
def set_function_attribute(tx: Frame, inst: Instruction) -> None:
    """defaults, kwdefaults, annotations, closure or the function that gives the annotations, function -> function"""
    function = tx.pop()
    assert isinstance(function, NestedFunctionVariable)
    _set(tx, function, inst.oparg, tx.pop())
    tx.push(function)


def _function_of_code(tx: Frame) -> NestedFunctionVariable:
    code = tx.pop().constant()
    return NestedFunctionVariable(code, tx.globals, tx.function, code.co_qualname)


def _set(tx: Frame, function: NestedFunctionVariable, bit: int, value: VariableTracker) -> None:
    if _PARTS[bit] == "closure":
        function.close_over(cast(list[CellVariable], value.unpack(tx)))
    else:
        function.made_with(**{_PARTS[bit]: value})


@handles("LOAD_BUILD_CLASS")
def load_build_class(tx: Frame, inst: Instruction) -> None:
    """-> __build_class__"""
    tx.push(CallableVariable(builtins.__build_class__, BuiltinSource("__build_class__")))
