"""Tracebacks of exceptions that the traced code raised and handled: made again, with the user's files, lines and names."""

from __future__ import annotations

import contextlib
import dis
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tracer import _C
from tracer.bytecode import original_position, program
from tracer.variables.exceptions.exceptions import TracebackVariable

if TYPE_CHECKING:
    from tracer.codegen.codegen import Codegen
    from tracer.protocol.tracer import Frame

_OTHER_KINDS = (
    inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
    | inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
)  # fmt: skip
_NO_NAME = "-"  # no global has it: deleting that one raises in the frame that a traceback is to show


def build_traceback(cg: Codegen, traceback: TracebackVariable) -> None:
    """-> the traceback"""
    left_at = traceback.left_at.index
    shown = _place(cg, traceback.code, traceback.globals, traceback.index, traceback.line, left_at)
    cg.call_object(_traceback, *shown, lambda: cg.load(traceback.following))


def _place(
    cg: Codegen, code: types.CodeType, globals_: dict[str, Any], index: int, line: int, left_at: int | None = None
) -> list[Callable[[], None]]:
    """What loads a place in the user's code, as `_traceback` takes it; the frame has been left at `left_at`."""
    original, left_at = original_position(code, index if left_at is None else left_at)
    code, index = original_position(code, index)
    offset = program(code).instructions[index].offset
    stand_in = _stand_in(code, program(code).instructions[left_at if original is code else index].offset)
    return [
        lambda: cg.load_const(stand_in),
        lambda: cg.load_globals(globals_),
        lambda: cg.load_const(offset),
        lambda: cg.load_const(line),
    ]


@contextlib.contextmanager
def frame_left_out(cg: Codegen) -> Iterator[None]:
    """Within, code is emitted that calls what stands for the frame itself: tracebacks show that alone."""
    with _corrected(cg, lambda: cg.call_object(_leave_out, lambda: cg.asm.copy(3))):
        yield


@contextlib.contextmanager
def shown_as(cg: Codegen, frame: Frame, instead: bool) -> Iterator[None]:
    """Within, code is emitted for an inlined frame: tracebacks show that one too, where it stands, or, if the code is what
    the frame itself does, `instead` of the frame that runs it."""
    line = frame.inst.positions.lineno or frame.code.co_firstlineno

    def correct() -> None:
        place = _place(cg, frame.code, frame.globals, frame.inst.index, line)
        cg.call_object(_show_instead if instead else _show_too, lambda: cg.asm.copy(3), *place)

    with _corrected(cg, correct):
        yield


@contextlib.contextmanager
def _corrected(cg: Codegen, correct: Callable[[], None]) -> Iterator[None]:
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


def _stand_in(code: types.CodeType, offset: int) -> types.CodeType:
    """A code object that looks like `code` in a traceback, lines, columns and names of locals included, and only raises: at
    `offset`, where the frame stands for good."""
    offset = max(offset, 2)
    body = bytearray((dis.opmap["NOP"], 0) * (len(code.co_code) // 2))
    body[0:2] = dis.opmap["RESUME"], 0
    body[offset : offset + 2] = dis.opmap["DELETE_GLOBAL"], 0
    made = code.replace(
        co_code=bytes(body), co_consts=(), co_names=(_NO_NAME,), co_exceptiontable=b"", co_stacksize=1,
        co_argcount=0, co_posonlyargcount=0, co_kwonlyargcount=0, co_cellvars=(), co_freevars=(),
        co_flags=code.co_flags & ~_OTHER_KINDS,
    )  # fmt: skip
    _C.never_trace(made)
    return made


# -- called by output code ---------------------------------------------------------------------------------------------
# A stand-in's frame keeps alive the frames of the functions here that ran it. These drop what leads to the exception before they
# end: otherwise it would keep itself alive, and with it what the frames hold that it shows.

_traceback_of = BaseException.__dict__["__traceback__"].__get__  # whatever the class of an exception makes of it


def _leave_out(error: BaseException, depth: int = 1) -> bool:
    """Whether the traceback begins with the caller's frame: not where C raised a class that could not be instantiated."""
    traceback = _traceback_of(error)
    own = traceback is not None and traceback.tb_frame is sys._getframe(depth)
    if own:
        BaseException.with_traceback(error, traceback.tb_next)
    return own


def _show_too(error: BaseException, code: types.CodeType, globals_: dict[str, Any], offset: int, line: int) -> None:
    BaseException.with_traceback(error, _traceback(code, globals_, offset, line, _traceback_of(error)))
    del error


def _show_instead(error: BaseException, code: types.CodeType, globals_: dict[str, Any], offset: int, line: int) -> None:
    if _leave_out(error, 2):
        _show_too(error, code, globals_, offset, line)
    del error


_C.never_trace(_leave_out.__code__)
_C.never_trace(_show_too.__code__)
_C.never_trace(_show_instead.__code__)


def _traceback(
    code: types.CodeType, globals_: dict[str, Any], offset: int, line: int, following: types.TracebackType | None
) -> types.TracebackType:
    try:
        return types.TracebackType(following, _frame_of_stand_in(code, globals_), offset, line)
    finally:
        del following


def _frame_of_stand_in(code: types.CodeType, globals_: dict[str, Any]) -> types.FrameType:
    try:
        types.FunctionType(code, globals_)()
    except NameError as reached:
        here = reached.__traceback__
        assert here is not None and here.tb_next is not None
        return here.tb_next.tb_frame  # it was raised there
    raise AssertionError("the frame was not reached")
