"""Finds the callers of a frame by number, as `stacklevel` counts them, whether they are traced or run by CPython."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

from tracer import _C
from tracer.bytecode import is_resume_name

if TYPE_CHECKING:
    from tracer.interpreter.translator import InstructionTranslator

Place = tuple[str, int, dict[str, Any], str]  # file, line, globals, name of the function


class Callers:
    """The places of a traced frame and of the traced frames that called it. Above these are the frames of CPython."""

    def __init__(self, frame: InstructionTranslator) -> None:
        self._traced: list[Place] = []
        for each in reversed(frame.frames()):
            at = each.location()
            self._traced.append((at.filename, at.lineno, each.globals, at.function))

    def traced(self, level: int, skipped: str) -> Place | None:
        """The place of the traced frame `level` frames up, or None. 1 is the frame itself; frames of the file `skipped` do not
        count."""
        return self._climb(level, skipped)[0]

    def _climb(self, level: int, skipped: str) -> tuple[Place | None, int]:
        level = max(level, 1)
        for place in self._traced:
            level -= place[0] != skipped
            if not level:
                return place, 0
        return None, level

    def place(self, level: int, skipped: str) -> Place:
        """Like `traced`, but goes on to frames of CPython. To be called from a function that the output code calls."""
        place, level = self._climb(level, skipped)
        if place is not None:
            return place
        frame: types.FrameType = sys._getframe(2)
        while level and frame.f_back is not None:
            inner, frame = frame.f_code, frame.f_back
            goes_on = is_resume_name(inner) and _function(inner) == _function(frame.f_code)
            level -= not goes_on and frame.f_code.co_filename != skipped
        return frame.f_code.co_filename, frame.f_lineno, frame.f_globals, frame.f_code.co_name


def _function(code: types.CodeType) -> tuple[str, str, int]:
    return code.co_name, code.co_filename, code.co_firstlineno


_C.never_trace(_function.__code__)
_C.never_trace(Callers.place.__code__)
_C.never_trace(Callers._climb.__code__)
