"""Functions of the interpreter that Python 3.12 calls by number, in place of opcodes of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tracer.bytecode import Instruction
from tracer.graph_breaks import unsupported
from tracer.interpreter.handlers import handles
from tracer.interpreter.opcodes.arithmetic import unary_positive
from tracer.interpreter.opcodes.containers import list_to_tuple
from tracer.interpreter.opcodes.exceptions import prep_reraise_star
from tracer.protocol.variable import is_exception
from tracer.variables.iterators.generators import stopped_error

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame


def _stopiteration_error(tx: Frame, inst: Instruction) -> None:
    """exception that leaves a generator -> the one that its caller sees"""
    if is_exception(tx.stack[-1], StopIteration):
        tx.push(stopped_error(tx, tx.pop()))


_ONE_OPERAND: dict[int, Callable[[Frame, Instruction], None]] = {3: _stopiteration_error, 5: unary_positive, 6: list_to_tuple}
_TWO_OPERANDS: dict[int, Callable[[Frame, Instruction], None]] = {1: prep_reraise_star}


@handles("CALL_INTRINSIC_1")
def call_intrinsic_1(tx: Frame, inst: Instruction) -> None:
    """value -> result. Others print what a statement gives, import *, or make type parameters: they break the graph."""
    _call(tx, inst, _ONE_OPERAND)


@handles("CALL_INTRINSIC_2")
def call_intrinsic_2(tx: Frame, inst: Instruction) -> None:
    """first, second -> result. Others make type parameters."""
    _call(tx, inst, _TWO_OPERANDS)


def _call(tx: Frame, inst: Instruction, functions: dict[int, Callable[[Frame, Instruction], None]]) -> None:
    function = functions.get(inst.oparg)
    if function is None:
        unsupported("unsupported-opcode", opcode=f"{inst.opname} {inst.oparg}")
    function(tx, inst)
