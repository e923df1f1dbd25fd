"""Binds the arguments of a call to the locals of a frame, by the rules of CPython (Python/ceval.c, initialize_locals)."""

from __future__ import annotations

import inspect
import types
from typing import TYPE_CHECKING

from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.functions.python_functions import FunctionVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer


def bind(
    tx: Tracer, function: FunctionVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
) -> dict[str, VariableTracker]:
    """The argument locals of a call of `function`; a mismatch raises CPython's TypeError in the traced program."""
    code = function.code
    positional = code.co_varnames[: code.co_argcount]
    keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    bound = dict(zip(positional, args))
    by_name = (*positional[code.co_posonlyargcount :], *keyword_only)
    extra: dict[str, VariableTracker] = {}
    for name, value in kwargs.items():
        if name in by_name:
            if name in bound:
                _fail(tx, function, args, kwargs)
            bound[name] = value
        else:
            extra[name] = value
    if len(args) > len(positional) and not code.co_flags & inspect.CO_VARARGS:
        _fail(tx, function, args, kwargs)
    if extra and not code.co_flags & inspect.CO_VARKEYWORDS:
        _fail(tx, function, args, kwargs)
    _fill_defaults(tx, function, bound, positional, keyword_only, args, kwargs)
    position = len(positional) + len(keyword_only)
    if code.co_flags & inspect.CO_VARARGS:
        bound[code.co_varnames[position]] = TupleVariable(args[len(positional) :])
        position += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        bound[code.co_varnames[position]] = tx.new_dict(extra)
    return bound


def _fill_defaults(
    tx: Tracer,
    function: FunctionVariable,
    bound: dict[str, VariableTracker],
    positional: tuple[str, ...],
    keyword_only: tuple[str, ...],
    args: list[VariableTracker],
    kwargs: dict[str, VariableTracker],
) -> None:
    missing = [name for name in positional if name not in bound]
    if missing:
        defaults = function.defaults(tx)
        by_name = dict(zip(positional[len(positional) - len(defaults) :], defaults))
        for name in missing:
            if name not in by_name:
                _fail(tx, function, args, kwargs)
            bound[name] = by_name[name]
    missing = [name for name in keyword_only if name not in bound]
    if missing:
        by_name = function.kwdefaults(tx)
        for name in missing:
            if name not in by_name:
                _fail(tx, function, args, kwargs)
            bound[name] = by_name[name]


def _fail(tx: Tracer, function: FunctionVariable, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> None:
    """Raises the TypeError that CPython words for this call, by making the same call to a function with that signature
    and no body."""
    code = function.code
    body = (lambda: None).__code__
    names = code.co_varnames[: _slot_count(code)]
    signature = body.replace(
        co_argcount=code.co_argcount,
        co_posonlyargcount=code.co_posonlyargcount,
        co_kwonlyargcount=code.co_kwonlyargcount,
        co_nlocals=len(names),
        co_varnames=names,
        co_flags=body.co_flags | (code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)),
        co_name=code.co_name,
        co_qualname=function.qualname,
    )
    stand_in = types.FunctionType(signature, {})
    stand_in.__qualname__ = signature.co_qualname
    stand_in.__defaults__ = tuple(function.defaults(tx))
    stand_in.__kwdefaults__ = function.kwdefaults(tx)
    try:
        stand_in(*args, **kwargs)
    except TypeError as error:
        tx.raise_error(TypeError, *error.args)
    raise AssertionError("the call was expected to fail")


def _slot_count(code: types.CodeType) -> int:
    flags = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_argcount + code.co_kwonlyargcount + flags
