"""f-strings."""
from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.bytecode import Instruction
from tracer.graph_breaks import unsupported
from tracer.interpreter.registry import handles
from tracer.variables.base import VariableTracker
from tracer.variables.constant import ConstantVariable, fold
from tracer.variables.objects import UserObjectVariable

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame

_STR, _REPR, _ASCII, _SPEC = 1, 2, 3, 4
_CONVERSIONS = {_STR: str, _REPR: repr, _ASCII: ascii}


@handles("FORMAT_VALUE", until=(3, 13))
def format_value(tx: Frame, inst: Instruction) -> None:
    """value (, spec) -> str"""
    flags = inst.arg
    assert flags is not None
    spec = tx.pop().constant() if flags & _SPEC else ""
    value = text_of(tx, tx.pop(), flags & 3)
    conversion = _CONVERSIONS.get(flags & 3)
    tx.push(fold(tx, lambda: format(conversion(value) if conversion else value, spec)))


def text_of(tx: Frame, value: VariableTracker, conversion: int) -> object:
    """The constant that is formatted, by way of `__str__` and friends for user objects."""
    if isinstance(value, UserObjectVariable):
        for name in {0: ("__format__", "__str__", "__repr__"), 1: ("__str__", "__repr__"), 2: ("__repr__",)}.get(conversion, ()):
            text = value.call_special(tx, name) if name != "__format__" else None
            if text is not None and text.is_constant():
                return text.constant()
    if not value.is_constant():
        unsupported("format-of-runtime-value", value=value.describe())
    return value.constant()


@handles("BUILD_STRING")
def build_string(tx: Frame, inst: Instruction) -> None:
    """strings... -> str"""
    tx.push(ConstantVariable("".join(part.constant() for part in tx.pop_many(inst.arg))))  # type: ignore[arg-type]
