"""The slots of a frame that a call fills: those of its arguments (CPython: Objects/codeobject.c, `co_varnames`)."""

from __future__ import annotations

import inspect
from types import CodeType


def argument_slots(code: CodeType) -> tuple[str, ...]:
    """Names of the slots that a call fills: positional, keyword-only, *args, **kwargs."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[:count]


def slot_of_others(code: CodeType, flag: int) -> str | None:
    """The slot of `*args` (`flag` is inspect.CO_VARARGS) or of `**kwargs` (inspect.CO_VARKEYWORDS); None if there is none."""
    if not code.co_flags & flag:
        return None
    behind = int(flag == inspect.CO_VARARGS and bool(code.co_flags & inspect.CO_VARKEYWORDS))
    return argument_slots(code)[-1 - behind]
