"""Places in the user's program: what errors, guards, graph breaks and logs point at.

A place is three values that a code object has anyway; the text of the line is read only when it is printed.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterable
from typing import NamedTuple


class UserLocation(NamedTuple):
    """A line of the user's program, and the function that it stands in."""

    filename: str
    lineno: int
    function: str

    def source_line(self) -> str:
        """The text of the line without its indentation; empty where the file cannot be read."""
        return linecache.getline(self.filename, self.lineno).strip()

    def __str__(self) -> str:
        return f"{self.filename}:{self.lineno} in {self.function}"

    def with_code(self) -> str:
        """`script.py:5 in fn: return a * len(b)`."""
        line = self.source_line()
        return f"{self}: {line}" if line else str(self)


UserStack = tuple[UserLocation, ...]  # outermost frame first, as in a traceback


def stack_text(stack: Iterable[UserLocation], indent: str = "  ") -> str:
    """The stack in the form of a traceback, innermost frame last."""
    lines = []
    for place in stack:
        lines.append(f'{indent}File "{place.filename}", line {place.lineno}, in {place.function}')
        line = place.source_line()
        if line:
            lines.append(f"{indent}  {line}")
    return "\n".join(lines)


def levels_to_the_user() -> int:
    """The `stacklevel` at which the caller's warning points out of the tracer, and of torch."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("tracer", "torch"):
        level, frame = level + 1, frame.f_back
    return level
