"""Errors of the tracer behind a graph break. A resume function for which no entry is made raises in the middle of the program's
function: what is open there (`with`, `try`) ends as it does for the program's own exceptions.

The answers are entries that are not valid: they serve one call, and are not installed.
"""

from __future__ import annotations

import types
from typing import Any

from tracer import _C, errors
from tracer.bytecode import raising_code
from tracer.sources.reading import is_a


def raising(function: types.FunctionType, error: BaseException) -> _C.Entry | None:
    """What serves a call of a resume function that is to raise this error; None if no block is open where it goes on."""
    code = raising_code(function.__code__)
    return None if code is None else _for_one_call(function, code, (types.CellType(error),))


def is_on_the_way(args: tuple[Any, ...]) -> bool:
    """Whether a resume function is called to handle an error of the tracer that an inner one has raised."""
    return any(is_a(value, errors.TracerError) for value in args)


def as_written(function: types.FunctionType) -> _C.Entry:
    """What serves a call that CPython is to run, with all that it calls: the tracer has failed, and does not try again."""
    return _for_one_call(function, function.__code__, ())


def _for_one_call(function: types.FunctionType, code: types.CodeType, extras: tuple[types.CellType, ...]) -> _C.Entry:
    entry = _C.Entry(
        _never,
        code,
        function.__globals__,
        extras,
        function.__closure__,
        needs_hook=False,
        name=function.__name__,
        qualname=function.__qualname__,
    )
    entry.valid = False
    return entry


def _never(*args: Any) -> bool:
    return False
