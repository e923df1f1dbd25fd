"""functools, written so that it can be traced."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from tracer.library.polyfills.replacing import replaces

_MISSING = object()


@replaces(functools.reduce)
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


@replaces(functools.cached_property.__get__)
def get_cached_property(self: Any, instance: Any, owner: type | None = None) -> Any:
    """Takes no lock: CPython's only guards against other threads while the value is computed."""
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


def cache_of(function: Any, maxsize: int | None, typed: bool, info: Any) -> tuple[Callable[..., Any], ...]:
    """The methods __call__, cache_info and cache_clear of functools._lru_cache_wrapper(function, maxsize, typed, info)."""
    kept: dict[Any, Any] = {}  # the most recently used entry comes last
    hits = misses = 0

    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal hits, misses
        if maxsize == 0:
            misses += 1
            return function(*args, **kwargs)
        key = _cache_key(args, kwargs, typed)
        found = kept.pop(key, _MISSING)
        if found is not _MISSING:
            hits += 1
            kept[key] = found
            return found
        misses += 1
        result = function(*args, **kwargs)
        if maxsize is None or key not in kept:  # a recursive call may have stored it already
            if maxsize is not None and len(kept) >= maxsize:
                del kept[next(iter(kept))]
            kept[key] = result
        return result

    def cache_info() -> Any:
        return info(hits, misses, maxsize, len(kept))

    def cache_clear() -> None:
        nonlocal hits, misses
        hits = misses = 0
        kept.clear()

    return call, cache_info, cache_clear


def _cache_key(args: tuple[Any, ...], kwargs: dict[str, Any], typed: bool) -> Any:
    if len(args) == 1 and not kwargs and not typed and type(args[0]) in (int, str):
        return args[0]  # CPython uses it as the key, so that f(1) and f(1.0) are different calls
    types = tuple([type(value) for value in (*args, *kwargs.values())]) if typed else ()
    return (len(args), *args, *kwargs, *kwargs.values(), *types)
