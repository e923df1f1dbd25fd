"""match statements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracer.bytecode import Instruction
from tracer.graph_breaks import unsupported
from tracer.interpreter.handlers import handles
from tracer.library.class_checks import find_attr, is_instance
from tracer.protocol.lookups import rely_on_bases
from tracer.protocol.variable import VariableTracker
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.containers.sequence_base import SequenceVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.values.constant import NONE, ConstantVariable, boolean

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame

# Flags of classes, as CPython keeps them: registering with an ABC sets them too.
_SEQUENCE, _MAPPING, _MATCHES_ITSELF = 1 << 5, 1 << 6, 1 << 22


@handles("MATCH_SEQUENCE")
def match_sequence(tx: Frame, inst: Instruction) -> None:
    """subject -> subject, is a sequence"""
    tx.push(boolean(_has_flag(tx.stack[-1].python_type(), _SEQUENCE)))


@handles("MATCH_MAPPING")
def match_mapping(tx: Frame, inst: Instruction) -> None:
    """subject -> subject, is a mapping"""
    tx.push(boolean(_has_flag(tx.stack[-1].python_type(), _MAPPING)))


def _has_flag(cls: type, flag: int) -> bool:
    rely_on_bases(cls)
    return bool(cls.__flags__ & flag)


@handles("GET_LEN")
def get_len(tx: Frame, inst: Instruction) -> None:
    """obj -> obj, len(obj)"""
    subject = tx.stack[-1]
    least = _compared_with(tx) if isinstance(subject, DictVariable) else None
    if least is None or not isinstance(subject, DictVariable):
        tx.push(subject.length(tx))
        return
    tx.pc += 2
    tx.push(boolean(subject.reaches(least)))


def _compared_with(tx: Frame) -> int | None:
    """The number of keys in a pattern, if the next two instructions do no more than compare the length with it."""
    constant, comparison = tx.program.instructions[tx.pc : tx.pc + 2]
    asks = constant.opname in ("LOAD_CONST", "LOAD_SMALL_INT") and comparison.opname == "COMPARE_OP" and comparison.argval == ">="
    return constant.argval if asks else None


@handles("MATCH_KEYS")
def match_keys(tx: Frame, inst: Instruction) -> None:
    """subject, keys -> subject, keys, tuple of values or None"""
    subject, keys = tx.stack[-2], tx.stack[-1].unpack(tx)
    absent = UserObjectVariable(object)
    get = subject.get_attr(tx, "get") if keys else NONE
    seen: set[Any] = set()
    values = []
    for key in keys:
        if key.hash_key(tx) in seen:
            tx.raise_error(ValueError, f"mapping pattern checks duplicate key ({key.text(tx, 'repr')})")
        seen.add(key.hash_key(tx))
        value = get.call(tx, [key, absent], {})
        if value is absent:
            tx.push(NONE)
            return
        values.append(value)
    tx.push(TupleVariable(values))


@handles("MATCH_CLASS")
def match_class(tx: Frame, inst: Instruction) -> None:
    """subject, class, keyword names -> tuple of attributes or None"""
    names, cls, subject = tx.pop().constant(), tx.pop(), tx.pop()
    if not isinstance(cls, ClassVariable):
        if cls.is_constant() or isinstance(cls, (UserObjectVariable, SequenceVariable)):
            tx.raise_error(TypeError, "called match pattern must be a type")
        unsupported("unsupported-opcode", opcode=inst.opname)
    if not is_instance(tx, subject, cls):
        tx.push(NONE)
        return
    positional = inst.arg or 0
    itself, match_args = _matched_by_position(tx, cls) if positional else (False, [])
    allowed = 1 if itself else len(match_args)
    if positional > allowed:
        words = f"{allowed} positional sub-pattern{'' if allowed == 1 else 's'} ({positional} given)"
        tx.raise_error(TypeError, f"{cls.value.__name__}() accepts {words}")
    found = _attributes(tx, subject, cls, [*match_args[:positional], *map(ConstantVariable, names)])
    tx.push(NONE if found is None else TupleVariable([subject, *found] if itself else found))


def _matched_by_position(tx: Frame, cls: ClassVariable) -> tuple[bool, list[VariableTracker]]:
    """Whether a positional pattern takes the subject itself, and the names of the attributes that they take."""
    match_args = find_attr(tx, cls, "__match_args__")
    if match_args is None:
        return _has_flag(cls.value, _MATCHES_ITSELF), []
    if match_args.python_type() is not tuple:
        got = match_args.python_type().__name__
        tx.raise_error(TypeError, f"{cls.value.__name__}.__match_args__ must be a tuple (got {got})")
    return False, match_args.unpack(tx)


def _attributes(
    tx: Frame, subject: VariableTracker, cls: ClassVariable, names: list[VariableTracker]
) -> list[VariableTracker] | None:
    """The attributes of these names, None if one is not there."""
    values: dict[str, VariableTracker] = {}
    for variable in names:
        if variable.python_type() is not str:
            got = variable.python_type().__name__
            tx.raise_error(TypeError, f"__match_args__ elements must be strings (got {got})")
        name = variable.constant()
        if name in values:
            tx.raise_error(TypeError, f"{cls.value.__name__}() got multiple sub-patterns for attribute {name!r}")
        value = find_attr(tx, subject, name)
        if value is None:
            return None
        values[name] = value
    return list(values.values())
