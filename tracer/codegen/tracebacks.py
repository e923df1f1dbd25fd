"""Tracebacks of exceptions that the traced code raised and handled: made again, with the user's files, lines and names."""
from __future__ import annotations

import contextlib
import dis
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

from tracer import _C
from tracer.bytecode import original_position, program
from tracer.variables.exceptions import TracebackVariable

_OTHER_KINDS = (
    inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
    | inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
)  # fmt: skip


def build_traceback(cg: Any, traceback: TracebackVariable) -> None:
    """-> the traceback"""
    shown = _place(cg, traceback.code, traceback.globals, traceback.index, traceback.line)
    cg.call_object(_traceback, *shown, lambda: cg.load(traceback.following))


def _place(cg: Any, code: types.CodeType, globals_: dict[str, Any], index: int, line: int) -> list[Callable[[], None]]:
    """What loads a place in the user's code, as `_traceback` takes it."""
    code, index = original_position(code, index)
    offset = program(code).instructions[index].offset
    stand_in = _stand_in(code)
    return [
        lambda: cg.load_const(stand_in),
        lambda: cg.load_globals(globals_),
        lambda: cg.load_const(offset),
        lambda: cg.load_const(line),
    ]


@contextlib.contextmanager
def frame_left_out(cg: Any) -> Iterator[None]:
    """Within, code is emitted that calls what stands for the frame itself: tracebacks show that alone."""
    with _corrected(cg, lambda: cg.call_object(_leave_out, lambda: cg.asm.copy(3))):
        yield


@contextlib.contextmanager
def shown_as(cg: Any, frame: Any, instead: bool) -> Iterator[None]:
    """Within, code is emitted for an inlined frame: tracebacks show that one too, where it stands, or, if the code is what
    the frame itself does, `instead` of the frame that runs it."""
    line = frame.inst.positions.lineno or frame.code.co_firstlineno

    def correct() -> None:
        place = _place(cg, frame.code, frame.globals, frame.inst.index, line)
        cg.call_object(_show_instead if instead else _show_too, lambda: cg.asm.copy(3), *place)

    with _corrected(cg, correct):
        yield


@contextlib.contextmanager
def _corrected(cg: Any, correct: Callable[[], None]) -> Iterator[None]:
    """An exception that leaves what is emitted within goes on after `correct`: exception -> exception, anything"""
    asm = cg.asm
    handler, done = asm.label(), asm.label()
    token = asm.try_begin(handler)
    asm.emit("NOP")  # belongs to this range alone, so that its depth is the depth here
    yield
    asm.try_end(token)
    asm.jump(done)
    asm.place(handler)
    correct()
    asm.pop()
    asm.emit("RERAISE", 0)
    asm.place(done)


class _Reached(Exception):
    """Raised in the frame that a traceback is to show."""


def _stand_in(code: types.CodeType) -> types.CodeType:
    """A code object that looks like `code` in a traceback, lines and columns included, and only raises."""
    body = bytes((
        dis.opmap["RESUME"], 0, dis.opmap["LOAD_CONST"], 0, dis.opmap["RAISE_VARARGS"], 1,
    ))  # fmt: skip
    padding = bytes((dis.opmap["NOP"], 0)) * ((len(code.co_code) - len(body)) // 2)
    made = code.replace(
        co_code=body + padding, co_consts=(_Reached,), co_names=(), co_exceptiontable=b"", co_stacksize=1,
        co_argcount=0, co_posonlyargcount=0, co_kwonlyargcount=0, co_cellvars=(), co_freevars=(), co_varnames=(),
        co_nlocals=0, co_flags=code.co_flags & ~_OTHER_KINDS,
    )  # fmt: skip
    _C.never_trace(made)
    return made


# -- called by output code ---------------------------------------------------------------------------------------------

_traceback_of = BaseException.__dict__["__traceback__"].__get__  # whatever the class of an exception makes of it


def _leave_out(error: BaseException) -> None:
    traceback = _traceback_of(error)
    if traceback is not None:
        BaseException.with_traceback(error, traceback.tb_next)


def _show_too(
    error: BaseException, code: types.CodeType, globals_: dict[str, Any], offset: int, line: int
) -> None:
    BaseException.with_traceback(error, _traceback(code, globals_, offset, line, _traceback_of(error)))


def _show_instead(
    error: BaseException, code: types.CodeType, globals_: dict[str, Any], offset: int, line: int
) -> None:
    _leave_out(error)
    _show_too(error, code, globals_, offset, line)


_C.never_trace(_leave_out.__code__)
_C.never_trace(_show_too.__code__)
_C.never_trace(_show_instead.__code__)


def _traceback(
    code: types.CodeType, globals_: dict[str, Any], offset: int, line: int, following: types.TracebackType | None
) -> types.TracebackType:
    try:
        types.FunctionType(code, globals_)()
    except _Reached as reached:
        shown = reached.__traceback__
        assert shown is not None and shown.tb_next is not None
        return types.TracebackType(following, shown.tb_next.tb_frame, offset, line)
    raise AssertionError("the frame was not reached")
