"""functools, written so that it can be traced."""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from tracer.library.registry import replaces

_MISSING = object()


@replaces(functools.reduce)  # type: ignore[arg-type]
def reduce(function: Callable[[Any, Any], Any], iterable: Iterable[Any], initial: Any = _MISSING, /) -> Any:
    iterator: Any = None
    try:
        iterator = iter(iterable)
    except TypeError:
        pass
    if iterator is None:  # raised here, the error has no context
        raise TypeError("reduce() arg 2 must support iteration")
    value = next(iterator, _MISSING) if initial is _MISSING else initial
    if value is _MISSING:
        raise TypeError("reduce() of empty iterable with no initial value")
    while (item := next(iterator, _MISSING)) is not _MISSING:  # `for` would ask the iterator for its `__iter__`
        value = function(value, item)
    return value


@replaces(functools.cached_property.__get__)  # type: ignore[arg-type]
def get_cached_property(self: Any, instance: Any, owner: type | None = None) -> Any:
    """Without the lock, which guards against other threads while the value is worked out."""
    if instance is None:
        return self
    if self.attrname is None:
        raise TypeError("Cannot use cached_property instance without calling __set_name__ on it.")
    try:
        cache = instance.__dict__
    except AttributeError:
        kind = type(instance).__name__
        raise TypeError(f"No '__dict__' attribute on {kind!r} instance to cache {self.attrname!r} property.") from None
    value = cache.get(self.attrname, _MISSING)
    if value is _MISSING:
        value = self.func(instance)
        cache[self.attrname] = value
    return value
