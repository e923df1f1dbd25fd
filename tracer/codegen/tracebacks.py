"""Tracebacks with the user's files, lines and names: of exceptions that the trace raised and handled, and of those that leave
output code."""

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
from tracer.bytecode.dialect import DIALECT
from tracer.variables.exceptions.exceptions import TracebackVariable

if TYPE_CHECKING:
    from tracer.codegen.codegen import Codegen
    from tracer.protocol.tracer import Frame

_OTHER_KINDS = (
    inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
    | inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
)  # fmt: skip
_NO_NAME = "-"  # not a valid identifier, so no global has it: DELETE_GLOBAL of it raises in the frame to be shown


def build_traceback(cg: Codegen, traceback: TracebackVariable) -> None:
    """-> the traceback"""
    left_at = traceback.left_at.index
    shown = _place_loads(cg, traceback.code, traceback.globals, traceback.index, traceback.line, left_at)
    cg.call_object(_make_traceback, *shown, lambda: cg.load(traceback.following))


def _place_loads(
    cg: Codegen, code: types.CodeType, globals_: dict[str, Any], index: int, line: int, left_at: int | None = None
) -> list[Callable[[], None]]:
    """The loads of the arguments of `_make_traceback` for a place in the user's code. `left_at`: the instruction at which the
    exception left the frame, if that is another one."""
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
def tracebacks_hide_frame(cg: Codegen) -> Iterator[None]:
    """Around emitted code that calls another version of this same frame: tracebacks of exceptions show that frame only."""
    with _exceptions_corrected(cg, lambda: cg.call_object(_drop_own_frame, lambda: cg.asm.copy(3))):
        yield


@contextlib.contextmanager
def tracebacks_show_inlined(cg: Codegen, frame: Frame, instead: bool) -> Iterator[None]:
    """Around code emitted for an inlined frame: tracebacks show the inlined frame in addition to the frame that runs the code,
    or, if the code is the frame's own instruction, `instead` of it."""
    line = frame.inst.positions.lineno or frame.code.co_firstlineno

    def correct() -> None:
        place = _place_loads(cg, frame.code, frame.globals, frame.inst.index, line)
        cg.call_object(_replace_own_frame if instead else _add_frame, lambda: cg.asm.copy(3), *place)

    with _exceptions_corrected(cg, correct):
        yield


@contextlib.contextmanager
def _exceptions_corrected(cg: Codegen, correct: Callable[[], None]) -> Iterator[None]:
    """Around emitted code: an exception that leaves it passes through `correct`, which emits exception -> exception, anything"""
    asm = cg.asm
    handler, done = asm.label(), asm.label()
    token = asm.try_begin(handler)
    asm.emit("NOP")  # so that the exception range has an instruction of its own, whose stack depth is the depth here
    yield
    asm.try_end(token)
    asm.jump(done)
    asm.place(handler)
    correct()
    asm.pop()
    asm.emit("RERAISE", 0)
    asm.place(done)


def _stand_in(code: types.CodeType, offset: int) -> types.CodeType:
    """A code object that looks like `code` in a traceback, with its lines, columns and names of locals, and does nothing but
    raise at `offset`."""
    offset = max(offset, 2)
    body = bytearray((dis.opmap["NOP"], 0) * (len(code.co_code) // 2))
    body[0:2] = dis.opmap["RESUME"], 0
    body[offset : offset + 2] = dis.opmap["DELETE_GLOBAL"], 0
    made = code.replace(
        co_code=bytes(body), co_consts=(), co_names=(_NO_NAME,), co_exceptiontable=b"", co_stacksize=1,
        co_argcount=0, co_posonlyargcount=0, co_kwonlyargcount=0, co_cellvars=(), co_freevars=(),
        co_flags=code.co_flags & ~(_OTHER_KINDS | DIALECT.docstring_flag),  # without constants, there is no docstring
    )  # fmt: skip
    _C.never_trace(made)
    return made


# -- called by output code ---------------------------------------------------------------------------------------------
# The frame of a stand-in keeps alive the frames of the functions below that ran it. So these delete their references to the
# exception before they return: otherwise exception -> traceback -> frame -> exception would be a cycle that keeps the user's
# frames alive.

_traceback_of = BaseException.__dict__["__traceback__"].__get__  # a class of the program may override __traceback__


def _drop_own_frame(error: BaseException, depth: int = 1) -> bool:
    """Drops the caller's frame from the front of the traceback; False if it is not there, as when C failed to make the
    exception."""
    traceback = _traceback_of(error)
    own = traceback is not None and traceback.tb_frame is sys._getframe(depth)
    if own:
        BaseException.with_traceback(error, traceback.tb_next)
    return own


def _add_frame(error: BaseException, code: types.CodeType, globals_: dict[str, Any], offset: int, line: int) -> None:
    BaseException.with_traceback(error, _make_traceback(code, globals_, offset, line, _traceback_of(error)))
    del error


def _replace_own_frame(error: BaseException, code: types.CodeType, globals_: dict[str, Any], offset: int, line: int) -> None:
    if _drop_own_frame(error, 2):
        _add_frame(error, code, globals_, offset, line)
    del error


_C.never_trace(_drop_own_frame.__code__)
_C.never_trace(_add_frame.__code__)
_C.never_trace(_replace_own_frame.__code__)


def _make_traceback(
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
        return _innermost_frame(reached)  # no local here holds the traceback, which holds this frame
    raise AssertionError("the frame was not reached")


def _innermost_frame(error: BaseException) -> types.FrameType:
    traceback = _traceback_of(error)
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    frame: types.FrameType = traceback.tb_frame
    return frame
