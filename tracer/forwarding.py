"""Which functions take the arguments that another one takes as *args and **kwargs: their parameters name these."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_VARARGS, _VARKEYWORDS = 0x04, 0x08
_MOST_WRAPPERS = 50

#  Code of a function of the tracer `(first, *args, **kwargs)` that passes its arguments on -> a function from `first` to the
# functions of the program whose parameters name them.
NAMED_BY: dict[types.CodeType, Callable[[Any], list[types.FunctionType]]] = {}


def names_of_args(function: types.FunctionType, slots: Mapping[str, Any]) -> tuple[str | None, ...]:
    """The parameter that each item of *args is for, in the function that it is passed on to (see `functools.wraps`); None where
    that is not known. Empty for functions that do not take both *args and **kwargs."""
    code = function.__code__
    if not (code.co_flags & _VARARGS and code.co_flags & _VARKEYWORDS):
        return ()
    taken = known = code.co_argcount
    names: list[str | None] = []
    for named in functions_naming(function, slots):
        inner = named.__code__
        more = inner.co_varnames[known : inner.co_argcount]
        names += (None if name in slots or index < inner.co_posonlyargcount else name for index, name in enumerate(more, known))
        known = taken + len(names)
        if not inner.co_flags & _VARARGS:
            break
    return tuple(names)


def functions_naming(function: types.FunctionType, slots: Mapping[str, Any]) -> Iterator[types.FunctionType]:
    """The function itself, or those that it stands for, each with those that it wraps."""
    if function.__code__ in NAMED_BY:
        found = NAMED_BY[function.__code__](next(iter(slots.values())))
    else:
        found = [function]
    for each in found:
        for _ in range(_MOST_WRAPPERS):
            if type(each) is not types.FunctionType:
                break
            yield each
            each = vars(each).get("__wrapped__")  # type: ignore[assignment]  # the type of which is looked at


def parameters_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a callable of the program. Annotations that Python 3.14 makes when they are asked for are text in it:
    making them may run code, or raise where they name what is imported for type checkers only."""
    if sys.version_info >= (3, 14):
        return inspect.signature(function, annotation_format=inspect.Format.STRING)
    return inspect.signature(function)


__all__ = ["NAMED_BY", "functions_naming", "names_of_args", "parameters_of"]
