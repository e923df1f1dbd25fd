"""The methods that a `with` statement of Python 3.14 looks up one by one (LOAD_SPECIAL).

Source: `_Py_SpecialMethods` in CPython's Python/ceval.c."""

from __future__ import annotations

from typing import Any

from tracer.protocol.error_words import full_name

#: By the argument of LOAD_SPECIAL.
SPECIAL_METHODS = ("__enter__", "__exit__", "__aenter__", "__aexit__")


def missing_words(cls: type, name: str) -> str:
    """What CPython says of a manager of this class that lacks the method."""
    return f"{full_name(cls)!r} object does not support the context manager protocol (missed {name} method){_suggestion(cls)}"


def _suggestion(cls: type) -> str:
    if not all(any(name in vars(base) for base in cls.__mro__) for name in ("__aenter__", "__aexit__")):
        return ""
    return " but it supports the asynchronous context manager protocol. Did you mean to use 'async with'?"


def bound_special_method(owner: Any, name: str) -> Any:
    """`owner.__enter__` as `with` finds it: in the class, past the attributes of the instance. TypeError where there is none."""
    cls = type(owner)
    for base in cls.__mro__:
        if name in vars(base):
            found = vars(base)[name]
            get = getattr(type(found), "__get__", None)
            return found if get is None else get(found, owner, cls)
    raise TypeError(missing_words(cls, name))
