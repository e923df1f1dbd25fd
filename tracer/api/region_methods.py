"""Functions of the public API as methods of compiled functions and modules: `fn.seal()` is `tracer.seal(fn)`."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import tracer
from tracer.api.settings import STATE

METHODS = frozenset(("seal", "unseal", "stats", "contract", "compact", "save", "load"))  # functions of the public API


def own_method(compiled: Any, name: str) -> Callable[..., Any]:
    """The method of this name, for `__getattr__` of compiled objects. If there is none, raises the AttributeError being
    handled."""
    if name not in METHODS or STATE not in compiled.__dict__:
        raise  # noqa: PLE0704
    return functools.partial(getattr(tracer, name), compiled)


def method_of(compiled: Any, name: str) -> Callable[..., Any]:
    """A method of a compiled object; it does not keep the object alive."""
    return functools.partial(_call_if_alive, name, weakref.ref(compiled))


def _call_if_alive(name: str, reference: weakref.ref[Any], *args: Any, **kwargs: Any) -> Any:
    compiled = reference()
    if compiled is None:
        raise ReferenceError("the compiled function is gone")
    return getattr(tracer, name)(compiled, *args, **kwargs)
