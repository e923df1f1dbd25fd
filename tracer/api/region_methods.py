"""Functions of the public API as methods of compiled functions and modules: `fn.seal()` is `tracer.seal(fn)`."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tracer
from tracer.api.settings import STATE

if TYPE_CHECKING:
    from tracer.runtime.region_state import RegionState

_OF_REGION = frozenset(("seal", "unseal", "stats", "contract", "compact"))  # functions of the public API, of a region
_OF_OBJECT = frozenset(("save", "load"))  # and of a compiled object
METHODS = _OF_REGION | _OF_OBJECT


def own_method(compiled: Any, name: str) -> Callable[..., Any]:
    """The method of this name, for `__getattr__` of compiled objects. If there is none, raises the AttributeError being
    handled."""
    if name not in METHODS or STATE not in compiled.__dict__:
        raise  # noqa: PLE0704
    return functools.partial(getattr(tracer, name), compiled)


def method_of(state: RegionState, compiled: Any, name: str) -> Callable[..., Any]:
    """A method of a compiled object with this region; it does not keep the object alive."""
    if name in _OF_OBJECT:
        return functools.partial(_call_if_alive, name, weakref.ref(compiled))
    return functools.partial(_of_region, name, state)


def _of_region(name: str, state: RegionState, *args: Any, **kwargs: Any) -> Any:
    return getattr(tracer, name)(state, *args, **kwargs)


def _call_if_alive(name: str, reference: weakref.ref[Any], *args: Any, **kwargs: Any) -> Any:
    compiled = reference()
    if compiled is None:
        raise ReferenceError("the compiled function does not exist any more")
    return getattr(tracer, name)(compiled, *args, **kwargs)
