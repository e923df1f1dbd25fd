"""Functions of the interpreter that Python 3.12 calls by number, in place of opcodes of their own."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING

from tracer.bytecode import Instruction
from tracer.graph_breaks import unsupported
from tracer.interpreter.handlers import handles
from tracer.interpreter.opcodes.arithmetic import unary_positive
from tracer.interpreter.opcodes.containers import list_to_tuple
from tracer.interpreter.opcodes.exceptions import prep_reraise_star
from tracer.protocol.variable import is_exception
from tracer.variables.classes.type_parameters import generic_of, type_alias, type_parameter, with_default
from tracer.variables.functions.python_functions import NestedFunctionVariable
from tracer.variables.iterators.generators import stopped_error

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame


def _stopiteration_error(tx: Frame, inst: Instruction) -> None:
    """exception that leaves a generator -> the one that its caller sees"""
    if is_exception(tx.stack[-1], StopIteration):
        tx.push(stopped_error(tx, tx.pop()))


def _type_parameter(count: int, kind: str, tx: Frame, inst: Instruction) -> None:
    """name (function that gives its bound or constraints) -> type parameter"""
    parts = tx.pop_many(count)
    tx.push(type_parameter(tx, getattr(typing, kind), parts, inst.opname, inst.oparg))


def _generic(tx: Frame, inst: Instruction) -> None:
    """type parameters -> Generic[type parameters]"""
    tx.push(generic_of(tx, tx.pop(), inst.oparg))


def _type_alias(tx: Frame, inst: Instruction) -> None:
    """(name, type parameters or None, function that gives the value) -> alias"""
    tx.push(type_alias(tx, tx.pop().unpack(tx), inst.oparg))


def _set_type_parameters(tx: Frame, inst: Instruction) -> None:
    """function, type parameters -> function"""
    function, parameters = tx.pop_many(2)
    if not isinstance(function, NestedFunctionVariable):
        unsupported("unsupported-attribute-store", value=function.describe(), name="__type_params__")
    tx.effects.store_attribute(function, "__type_params__", parameters)
    tx.push(function)


def _set_default(tx: Frame, inst: Instruction) -> None:
    """type parameter, function that gives its default -> type parameter"""
    parameter, function = tx.pop_many(2)
    tx.push(with_default(tx, parameter, function, inst.oparg))


_Handler = Callable[["Frame", Instruction], None]
_ONE_OPERAND: dict[int, _Handler] = {
    3: _stopiteration_error,
    5: unary_positive,
    6: list_to_tuple,
    7: functools.partial(_type_parameter, 1, "TypeVar"),
    8: functools.partial(_type_parameter, 1, "ParamSpec"),
    9: functools.partial(_type_parameter, 1, "TypeVarTuple"),
    10: _generic,
    11: _type_alias,
}
_TWO_OPERANDS: dict[int, _Handler] = {
    1: prep_reraise_star,
    2: functools.partial(_type_parameter, 2, "TypeVar"),
    3: functools.partial(_type_parameter, 2, "TypeVar"),
    4: _set_type_parameters,
    5: _set_default,
}


@handles("CALL_INTRINSIC_1")
def call_intrinsic_1(tx: Frame, inst: Instruction) -> None:
    """value -> result. Others print what a statement gives, or import *: they break the graph."""
    _call(tx, inst, _ONE_OPERAND)


@handles("CALL_INTRINSIC_2")
def call_intrinsic_2(tx: Frame, inst: Instruction) -> None:
    """first, second -> result"""
    _call(tx, inst, _TWO_OPERANDS)


def _call(tx: Frame, inst: Instruction, functions: dict[int, _Handler]) -> None:
    function = functions.get(inst.oparg)
    if function is None:
        unsupported("unsupported-opcode", opcode=f"{inst.opname} {inst.oparg}")
    function(tx, inst)
