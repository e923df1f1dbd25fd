"""Calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.bytecode import Instruction
from tracer.graph_breaks import unsupported
from tracer.interpreter.binding import Passed
from tracer.interpreter.calls import call_directly, call_passing
from tracer.interpreter.handlers import handles
from tracer.interpreter.opcodes.stack import pop_callee
from tracer.protocol.lookups import defines
from tracer.protocol.variable import NullVariable, VariableTracker
from tracer.variables.containers.call_form import ArgumentsVariable, Keywords
from tracer.variables.containers.dicts import DictVariable, pairs_of
from tracer.variables.values.special_results import tuple_items

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator as Frame


@handles("KW_NAMES")
def kw_names(tx: Frame, inst: Instruction) -> None:
    """names of the keyword arguments of the call that follows"""
    tx.keyword_names = tx.code.co_consts[inst.oparg]


@handles("CALL")
def call(tx: Frame, inst: Instruction) -> None:
    """callee, args... -> result"""
    names, tx.keyword_names = tx.keyword_names, ()
    _call(tx, inst.oparg, names)


@handles("CALL_KW")
def call_kw(tx: Frame, inst: Instruction) -> None:
    """callee, args..., names of the last of them -> result"""
    _call(tx, inst.oparg, tx.pop().constant())


def _call(tx: Frame, count: int, names: tuple[str, ...]) -> None:
    values = tx.pop_many(count)
    callee, first = pop_callee(tx)
    values = [*first, *values]
    positional = len(values) - len(names)
    tx.push(call_directly(tx, callee, values[:positional], dict(zip(names, values[positional:]))))


@handles("CALL_FUNCTION_EX", until=(3, 14))
def call_function_ex(tx: Frame, inst: Instruction) -> None:
    """callee, args (, kwargs) -> result"""
    _call_spread(tx, tx.pop() if inst.oparg & 1 else None)


@handles("CALL_FUNCTION_EX", since=(3, 14))
def call_spread(tx: Frame, inst: Instruction) -> None:
    """callee, args, kwargs or NULL -> result"""
    keywords = tx.pop()
    _call_spread(tx, None if isinstance(keywords, NullVariable) else keywords)


def _call_spread(tx: Frame, keywords: VariableTracker | None) -> None:
    arguments = tx.pop()
    if not (defines(arguments.python_type(), "__iter__") or defines(arguments.python_type(), "__getitem__")):
        unsupported("call-arguments", error="argument after * must be an iterable")
    callee, _ = pop_callee(tx)
    if isinstance(keywords, DictVariable) and isinstance(keywords.unread, Keywords):
        args, passed = _passed_on(tx, arguments, keywords.unread)
        tx.push(call_passing(tx, callee, args, passed))
        return
    kwargs: dict[str, VariableTracker] = {}
    for key, value in () if keywords is None else pairs_of(tx, keywords):
        if not key.is_constant() or type(key.constant()) is not str:
            unsupported("call-arguments", error="keywords must be strings")
        kwargs[key.constant()] = value
    tx.push(call_directly(tx, callee, tuple_items(tx, arguments), kwargs))


def _passed_on(tx: Frame, arguments: VariableTracker, keywords: Keywords) -> tuple[list[VariableTracker], Passed]:
    """The positional arguments that are the program's own, and those that the call passes on."""
    if isinstance(arguments, ArgumentsVariable) and not arguments.is_read():
        return list(arguments.first), Passed(ArgumentsVariable(arguments.call_form, arguments.start), keywords)
    return tuple_items(tx, arguments), Passed(None, keywords)


@handles("LOAD_ASSERTION_ERROR")
def load_assertion_error(tx: Frame, inst: Instruction) -> None:
    """-> AssertionError"""
    tx.push(tx.class_variable(AssertionError))
