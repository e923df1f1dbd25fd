"""Attributes, and the methods that calls load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.bytecode import Instruction
from tracer.interpreter.calls import call_directly
from tracer.interpreter.handlers import handles
from tracer.interpreter.opcodes.stack import push_callee

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame


_METHOD, _TWO_ARGUMENTS = 1, 2  # bits of the argument


@handles("LOAD_ATTR", until=(3, 12))
def load_attr(tx: Frame, inst: Instruction) -> None:
    """obj -> obj.name"""
    tx.push(tx.read_attribute(tx.pop(), inst.argval))


@handles("LOAD_METHOD")
def load_method(tx: Frame, inst: Instruction) -> None:
    """obj -> NULL, obj.name"""
    push_callee(tx, tx.read_attribute(tx.pop(), inst.argval))


@handles("LOAD_ATTR", since=(3, 12))
def load_attr_or_method(tx: Frame, inst: Instruction) -> None:
    """obj -> obj.name, for a call as its callee"""
    value = tx.read_attribute(tx.pop(), inst.argval)
    if inst.oparg & _METHOD:
        push_callee(tx, value)
    else:
        tx.push(value)


@handles("LOAD_SUPER_ATTR")
def load_super_attr(tx: Frame, inst: Instruction) -> None:
    """super, class, self -> super(class, self).name, for a call as its callee"""
    arguments = tx.pop_many(2)
    callee = tx.pop()
    if callee.identity() is not super and not inst.oparg & _TWO_ARGUMENTS:  # a function of that name, called without arguments
        arguments = []
    value = tx.read_attribute(call_directly(tx, callee, arguments, {}), inst.argval)
    if inst.oparg & _METHOD:
        push_callee(tx, value)
    else:
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
