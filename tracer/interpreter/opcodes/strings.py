"""f-strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracer.bytecode import Instruction
from tracer.interpreter.handlers import breaks, handles
from tracer.variables.tensors.runtime_text import RuntimeTextVariable, parts_of, piece, rendered
from tracer.variables.text import formatted
from tracer.variables.values.constant import ConstantVariable

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame
    from tracer.protocol.variable import VariableTracker

_STR, _REPR, _ASCII, _SPEC = 1, 2, 3, 4
_CONVERSIONS: dict[int, Callable[[Any], str] | None] = {0: None, _STR: str, _REPR: repr, _ASCII: ascii}


@handles("FORMAT_VALUE", until=(3, 13))
def format_value(tx: Frame, inst: Instruction) -> None:
    """value (, spec) -> str"""
    flags = inst.oparg
    spec = tx.pop().constant() if flags & _SPEC else ""
    tx.push(_formatted(tx, tx.pop(), _CONVERSIONS[flags & 3], spec))


@handles("CONVERT_VALUE")
def convert_value(tx: Frame, inst: Instruction) -> None:
    """value -> str(value), repr(value) or ascii(value)"""
    tx.push(_formatted(tx, tx.pop(), _CONVERSIONS[inst.oparg], ""))


@handles("FORMAT_SIMPLE")
def format_simple(tx: Frame, inst: Instruction) -> None:
    """value -> str"""
    tx.push(_formatted(tx, tx.pop(), None, ""))


@handles("FORMAT_WITH_SPEC")
def format_with_spec(tx: Frame, inst: Instruction) -> None:
    """value, spec -> str"""
    spec = tx.pop().constant()
    tx.push(_formatted(tx, tx.pop(), None, spec))


def _formatted(tx: Frame, value: VariableTracker, conversion: Callable[[Any], str] | None, spec: str) -> VariableTracker:
    if isinstance(value, RuntimeTextVariable) and conversion is None:
        whole = value.with_spec(spec)
        if whole is not None:
            return whole
    later = piece(tx, value, conversion, spec)
    if later is not None:
        return RuntimeTextVariable(tx, (later,))
    return formatted(tx, lambda value: rendered(value, conversion, spec), [value], {})


breaks("BUILD_TEMPLATE", "BUILD_INTERPOLATION", why="makes a template of a t-string, which is no str: CPython makes it")


@handles("BUILD_STRING")
def build_string(tx: Frame, inst: Instruction) -> None:
    """strings... -> str"""
    parts = tx.pop_many(inst.oparg)
    if any(isinstance(part, RuntimeTextVariable) for part in parts):
        tx.push(RuntimeTextVariable(tx, (each for part in parts for each in parts_of(part))))
    else:
        tx.push(ConstantVariable("".join(part.constant() for part in parts)))
