"""match statements."""
from __future__ import annotations

import collections.abc
from typing import TYPE_CHECKING

from tracer.bytecode import Instruction
from tracer.graph_breaks import unsupported
from tracer.interpreter.registry import handles
from tracer.library.class_checks import is_instance
from tracer.variables.base import VariableTracker
from tracer.variables.classes import ClassVariable
from tracer.variables.constant import NONE, boolean
from tracer.variables.sequences import TupleVariable

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame

_SELF_MATCHING = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


@handles("MATCH_SEQUENCE")
def match_sequence(tx: Frame, inst: Instruction) -> None:
    """subject -> subject, is a sequence"""
    cls = tx.stack[-1].python_type()
    tx.push(boolean(issubclass(cls, collections.abc.Sequence) and not issubclass(cls, (str, bytes, bytearray))))


@handles("MATCH_MAPPING")
def match_mapping(tx: Frame, inst: Instruction) -> None:
    """subject -> subject, is a mapping"""
    tx.push(boolean(issubclass(tx.stack[-1].python_type(), collections.abc.Mapping)))


@handles("MATCH_KEYS")
def match_keys(tx: Frame, inst: Instruction) -> None:
    """subject, keys -> subject, keys, tuple of values or None"""
    subject, keys = tx.stack[-2], tx.stack[-1]
    values = []
    for key in keys.unpack(tx):
        if not subject.contains(tx, key).truth(tx):
            tx.push(NONE)
            return
        values.append(subject.get_item(tx, key))
    tx.push(TupleVariable(values))


@handles("MATCH_CLASS")
def match_class(tx: Frame, inst: Instruction) -> None:
    """subject, class, keyword names -> tuple of attributes or None"""
    names, cls, subject = tx.pop().constant(), tx.pop(), tx.pop()
    if not isinstance(cls, ClassVariable):
        unsupported("unsupported-opcode", opcode=inst.opname)
    if not is_instance(tx, subject, cls):
        tx.push(NONE)
        return
    assert inst.arg is not None
    tx.push(_attributes(tx, subject, cls.value, inst.arg, names))


def _attributes(
    tx: Frame, subject: VariableTracker, cls: type, positional: int, names: tuple[str, ...]
) -> VariableTracker:
    values: list[VariableTracker] = []
    match_args = getattr(cls, "__match_args__", ())
    if positional and not match_args and issubclass(cls, _SELF_MATCHING):
        values.append(subject)
        positional = 0
    for name in (*match_args[:positional], *names):
        found = subject.get_attr(tx, name)
        values.append(found)
    return TupleVariable(values)


