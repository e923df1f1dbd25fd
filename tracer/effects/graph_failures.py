"""What is logged where a compiled graph raises and the program, which CPython runs in its place, does not. Called by output
code and by `graph_call.c`."""

from __future__ import annotations

import logging
import traceback
import types

from tracer import config

log = logging.getLogger("tracer")
_logged: set[types.CodeType] = set()


def describe(code: types.CodeType, error: BaseException) -> str | None:
    """The error as text, for `report` behind the run of `code`; None if a failure of that code was logged before, or if the graph
    was to raise what it warns of (`heard_warnings`).

    A text, for the error itself holds the frames of the graph, and so its tensors, while the program runs again.
    """
    if code in _logged or isinstance(error, Warning):
        return None
    return "".join(traceback.format_exception_only(error)).strip()


def report(code: types.CodeType, error: str | None) -> None:
    """Logs, once for each program, that its graph raised and `code`, the program itself, then ended without an error."""
    if error is None or code in _logged:
        return
    _logged.add(code)
    # Where every frame is compiled, a record on stderr could change what the tested program shows.
    log.log(
        logging.DEBUG if config.convert_every_frame else logging.WARNING,
        "The compiled graph of %s (%s:%d) raised %s\nCPython then ran the program, which ended without an error; that result is "
        "used. Either the program handles this error itself, or the compiled graph is wrong. Each such call costs both runs. "
        "Hint: tracer.compare_with_eager(backend) finds an operation that a backend computes wrongly. Logged once for each "
        "function.",
        code.co_qualname,
        code.co_filename,
        code.co_firstlineno,
        error,
    )
