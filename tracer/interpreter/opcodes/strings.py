"""f-strings."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tracer.bytecode import Instruction
from tracer.interpreter.registry import handles
from tracer.variables.constant import ConstantVariable
from tracer.variables.text import formatted

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame

_STR, _REPR, _ASCII, _SPEC = 1, 2, 3, 4
_CONVERSIONS: dict[int, Callable[[Any], Any]] = {0: lambda value: value, _STR: str, _REPR: repr, _ASCII: ascii}


@handles("FORMAT_VALUE", until=(3, 13))
def format_value(tx: Frame, inst: Instruction) -> None:
    """value (, spec) -> str"""
    flags = inst.arg
    assert flags is not None
    spec = tx.pop().constant() if flags & _SPEC else ""
    conversion = _CONVERSIONS[flags & 3]
    tx.push(formatted(tx, lambda value: format(conversion(value), spec), [tx.pop()], {}))


@handles("BUILD_STRING")
def build_string(tx: Frame, inst: Instruction) -> None:
    """strings... -> str"""
    tx.push(ConstantVariable("".join(part.constant() for part in tx.pop_many(inst.arg))))  # type: ignore[arg-type]
