"""Binds the arguments of a call to the locals of a frame, by the rules of CPython (Python/ceval.c, initialize_locals)."""

from __future__ import annotations

import dataclasses
import inspect
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.call_form import ArgumentsVariable, Keywords
from tracer.variables.containers.dicts import DictVariable
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


@dataclasses.dataclass
class Passed:
    """Arguments that a call passes on as its caller got them, after others: of `*args` (None: none), and `**kwargs`."""

    rest: ArgumentsVariable | None
    keywords: Keywords

    def args(self, tx: Tracer) -> Iterator[VariableTracker]:
        """The positional ones. Reading them shows the program how many there are."""
        if self.rest is not None:
            yield from self.rest.items(tx)

    def kwargs(self, tx: Tracer) -> dict[str, VariableTracker]:
        return {key.constant(): value for key, value in DictVariable(self.keywords).pairs(tx)}


def bind_passed(tx: Tracer, function: FunctionVariable, args: list[VariableTracker], passed: Passed) -> dict[str, Any] | None:
    """The argument locals of a call of `function` with `args` and what is passed on, which shows the program nothing of how that
    came. None where it would: the arguments have to be read then, and bound."""
    code, rest, keywords = function.code, passed.rest, passed.keywords
    form = keywords.form
    positional = code.co_varnames[: code.co_argcount]
    keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    by_name = (*positional[code.co_posonlyargcount :], *keyword_only)
    takes_more, takes_others = bool(code.co_flags & inspect.CO_VARARGS), bool(code.co_flags & inspect.CO_VARKEYWORDS)
    if len(args) > len(positional) and not takes_more:
        return None
    bound: dict[str, Any] = dict(zip(positional, args))
    if any(keywords.look(name) for name in bound if name in by_name):
        return None
    if rest is None:
        keywords.see_named()
    start = 0 if rest is None else rest.start
    count = 0 if rest is None else form.count
    for position in range(len(args), len(positional)):
        name, index = positional[position], start + position - len(args)
        named = position >= code.co_posonlyargcount
        by_keyword = keywords.take(name) if named else None
        if index < count:
            if by_keyword is not None or not (named and form.name(index, name)):
                return None
            bound[name] = form.items[index]
        elif by_keyword is not None:
            if rest is not None and keywords.is_as_given(name) and not form.name(index, name):
                return None
            bound[name] = keywords.take(name)
    for name in keyword_only:
        value = keywords.take(name)
        if value is not None:
            if form.is_named(name):
                keywords.look(name)
            bound[name] = value
    left = start + max(len(positional) - len(args), 0)
    others = [key for key in keywords.present() if key not in by_name]
    if (not takes_more and count > left) or (others and not takes_others):
        return None
    if not takes_more or not takes_others:
        if takes_more and rest is not None and count > left:
            form.count_is(count, count)
        for key in others:
            if form.is_named(key):
                keywords.look(key)
    if len(args) < len(positional) or keyword_only or not (takes_more and takes_others):
        form.complete = True
    if not _defaults_for_all(tx, function, bound, positional, keyword_only):
        return None
    position = len(positional) + len(keyword_only)
    if takes_more:
        surplus = args[len(positional) :]
        more = TupleVariable(surplus) if rest is None else ArgumentsVariable(form, left, surplus)
        bound[code.co_varnames[position]] = more
        position += 1
    if takes_others:
        bound[code.co_varnames[position]] = DictVariable(keywords.passed(by_name))
    return bound


def _defaults_for_all(
    tx: Tracer, function: FunctionVariable, bound: dict[str, Any], positional: tuple[str, ...], keyword_only: tuple[str, ...]
) -> bool:
    """Whether what is not bound has defaults, which are bound then."""
    if any(name not in bound for name in positional):
        defaults = function.defaults(tx)
        bound.update({k: v for k, v in zip(positional[len(positional) - len(defaults) :], defaults) if k not in bound})
    if any(name not in bound for name in keyword_only):
        bound.update({k: v for k, v in function.kwdefaults(tx).items() if k not in bound})
    return all(name in bound for name in (*positional, *keyword_only))


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
        co_qualname=function.get_attr(tx, "__qualname__").constant(),  # which may have been assigned
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
