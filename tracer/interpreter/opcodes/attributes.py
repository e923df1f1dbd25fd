"""Attributes, and the methods that calls load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.bytecode import Instruction
from tracer.interpreter.handlers import handles
from tracer.protocol.variable import NULL

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame


@handles("LOAD_ATTR", until=(3, 12))
def load_attr(tx: Frame, inst: Instruction) -> None:
    """obj -> obj.name"""
    tx.push(tx.read_attribute(tx.pop(), inst.argval))


@handles("LOAD_METHOD")
def load_method(tx: Frame, inst: Instruction) -> None:
    """obj -> NULL, obj.name"""
    value = tx.read_attribute(tx.pop(), inst.argval)
    tx.push(NULL)
    tx.push(value)


@handles("STORE_ATTR")
def store_attr(tx: Frame, inst: Instruction) -> None:
    """value, obj ->"""
    owner, value = tx.pop(), tx.pop()
    owner.set_attr(tx, inst.argval, value)


@handles("DELETE_ATTR")
def delete_attr(tx: Frame, inst: Instruction) -> None:
    """obj ->"""
    tx.pop().del_attr(tx, inst.argval)
