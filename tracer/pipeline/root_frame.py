"""The frame with which a trace begins: its arguments, as the call has passed them, and its cells."""

from __future__ import annotations

import inspect
import types
from typing import Any

from tracer.bytecode.slots import argument_slots
from tracer.forwarding import names_of_args
from tracer.interpreter.trace import Trace
from tracer.interpreter.translator import InstructionTranslator
from tracer.protocol.lazy import Unwrapped
from tracer.protocol.variable import VariableTracker
from tracer.sources.roots import CellSource, LocalSource
from tracer.variables.containers.call_form import ArgumentsVariable, CallForm, Keywords
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.functions.python_functions import CellVariable, cell_of


def root_frame(trace: Trace, function: types.FunctionType, args: tuple[Any, ...]) -> InstructionTranslator:
    """The translator of the frame itself. An argument is wrapped when it is first read."""
    code = function.__code__
    slots = argument_slots(code)
    trace.builder.arguments = args
    locals_: dict[str, Any] = {name: Unwrapped(value, LocalSource(name)) for name, value in zip(slots, args)}
    locals_ |= _call_form_of(trace, function, dict(zip(slots, args)))
    cells: dict[str, CellVariable] = {}
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        source = CellSource(name)
        cells[name] = trace.builder.remember(cell, cell_of(cell, source))
    for name in code.co_cellvars:
        cells[name] = CellVariable(locals_.pop(name, None))
    return InstructionTranslator(trace, code, function.__globals__, locals_, cells)


def _call_form_of(trace: Trace, function: types.FunctionType, slots: dict[str, Any]) -> dict[str, VariableTracker]:
    """The tracked *args and **kwargs of a function that takes **kwargs."""
    flags = function.__code__.co_flags
    if not flags & inspect.CO_VARKEYWORDS:
        return {}
    *others, keywords = slots
    more = others[-1] if flags & inspect.CO_VARARGS else None
    places = None if more is None else LocalSource(more), LocalSource(keywords)
    args, kwargs = () if more is None else slots[more], slots[keywords]
    names = names_of_args(function, slots)
    form = CallForm(args, kwargs, places, names, slots, trace.location, trace.policy.is_declared)
    trace.begin_call(form)
    made = DictVariable(Keywords(form, dict(kwargs), places[1]), places[1])
    tracked: dict[str, VariableTracker] = {keywords: trace.builder.remember(kwargs, made)}
    if more is not None:
        tracked[more] = trace.builder.remember(args, ArgumentsVariable(form, source=places[0]))
    return tracked
