"""Generators that are alive where a graph ends: made anew, suspended where the trace left them."""

from __future__ import annotations

import functools
import inspect
import types
from typing import TYPE_CHECKING, Any

from tracer import _C
from tracer.bytecode import StackEntry, live_names, suspended_generator
from tracer.graph_breaks import unsupported
from tracer.protocol.variable import NullVariable
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.exceptions.exceptions import HandledBefore
from tracer.variables.iterators.generators import GeneratorVariable
from tracer.variables.values.constant import NONE

if TYPE_CHECKING:
    from tracer.codegen.codegen import Codegen
    from tracer.protocol.tracer import Frame


def build_generator(cg: Codegen, generator: GeneratorVariable) -> None:
    """-> the generator"""
    if generator.finished:
        cg.call_object(_finished_generator, lambda: cg.load_const(generator.names()))
    elif generator.started:
        _emit_suspended(cg, generator)
    else:
        _emit_call(cg, generator)


def _emit_call(cg: Codegen, generator: GeneratorVariable) -> None:
    """-> a generator that has not started: calls its function with the arguments that the trace called it with"""
    frame = generator.frame
    code = frame.code
    if frame.function is None:
        unsupported("cannot-reconstruct", value=generator.describe())
    names = iter(code.co_varnames)
    positional = [next(names) for _ in range(code.co_argcount)]
    named = [next(names) for _ in range(code.co_kwonlyargcount)]
    more = next(names) if code.co_flags & inspect.CO_VARARGS else None
    extra = next(names) if code.co_flags & inspect.CO_VARKEYWORDS else None
    cg.call_object(
        _call_function,
        functools.partial(cg.load, frame.function),
        lambda: cg.build_sequence("BUILD_TUPLE", [_argument(frame, name) for name in positional]),
        lambda: cg.load(TupleVariable([]) if more is None else _argument(frame, more)),
        lambda: cg.load_const(tuple(named)),
        lambda: cg.build_sequence("BUILD_TUPLE", [_argument(frame, name) for name in named]),
        lambda: cg.load(DictVariable({}) if extra is None else _argument(frame, extra)),
    )


def _argument(frame: Frame, name: str) -> Any:
    cell = frame.cells.get(name)
    return frame.locals[name] if cell is None else cell.contents


def _emit_suspended(cg: Codegen, generator: GeneratorVariable) -> None:
    """-> a generator that is suspended at the same instruction, with the same stack, locals and cells"""
    frame = generator.frame
    if any(isinstance(value, HandledBefore) for value in frame.stack):
        unsupported("cannot-reconstruct", value=f"{generator.describe()}, which handles an exception")
    index = frame.inst.index
    names = tuple(sorted(name for name in live_names(frame.program, index) if name in frame.locals))
    kinds: list[StackEntry] = ["null" if isinstance(value, NullVariable) else "value" for value in frame.stack]
    code = suspended_generator(frame.code, index, (*kinds, "value"), names)
    _C.never_trace(code)
    cells = frame.closure()
    values = [value for value in frame.stack if not isinstance(value, NullVariable)]
    arguments = [*values, NONE, *(frame.locals[name] for name in names)]
    cg.call_object(
        _advanced_generator,
        lambda: cg.load_const(code),
        lambda: cg.load_globals(frame.globals),
        lambda: cg.build_sequence("BUILD_TUPLE", cells),
        lambda: cg.build_sequence("BUILD_TUPLE", arguments),
        lambda: cg.load_const(generator.names()),
    )


# -- called by output code ---------------------------------------------------------------------------------------------


def _call_function(
    function: Any, positional: tuple[Any, ...], more: tuple[Any, ...], names: tuple[str, ...], named: Any, extra: Any
) -> Any:
    return function(*positional, *more, **dict(zip(names, named)), **extra)


def _advanced_generator(
    code: types.CodeType, globals_: dict[str, Any], cells: Any, arguments: tuple[Any, ...], names: tuple[str, str]
) -> Any:
    """A generator of `code`, advanced to its first yield."""
    generator = types.FunctionType(code, globals_, code.co_name, None, cells or None)(*arguments)
    generator.__name__, generator.__qualname__ = names
    next(generator)
    return generator


def _finished_generator(names: tuple[str, str]) -> Any:
    """A generator that is exhausted."""
    generator: Any = (item for item in names)
    generator.__name__, generator.__qualname__ = names
    generator.close()
    return generator
