"""functools, written so that it can be traced."""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from tracer.library.registry import replaces

_MISSING = object()


@replaces(functools.reduce)  # type: ignore[arg-type]
def reduce(function: Callable[[Any, Any], Any], iterable: Iterable[Any], initial: Any = _MISSING, /) -> Any:
    iterator = iter(iterable)
    if initial is _MISSING:
        try:
            value = next(iterator)
        except StopIteration:
            raise TypeError("reduce() of empty iterable with no initial value") from None
    else:
        value = initial
    for item in iterator:
        value = function(value, item)
    return value


@replaces(functools.cached_property.__get__)  # type: ignore[arg-type]
def get_cached_property(self: Any, instance: Any, owner: type | None = None) -> Any:
    """Without the lock, which guards against other threads while the value is worked out."""
    if instance is None:
        return self
    if self.attrname is None:
        raise TypeError("Cannot use cached_property instance without calling __set_name__ on it.")
    cache = instance.__dict__
    value = cache.get(self.attrname, _MISSING)
    if value is _MISSING:
        value = self.func(instance)
        cache[self.attrname] = value
    return value


@replaces(functools.cmp_to_key)  # type: ignore[arg-type]
def cmp_to_key(mycmp: Callable[[Any, Any], int]) -> Any:
    return functools.partial(ComparedBy, mycmp)


class ComparedBy:
    """What cmp_to_key makes of an item."""

    __slots__ = ("compare", "obj")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, compare: Callable[[Any, Any], int], obj: Any) -> None:
        self.compare = compare
        self.obj = obj

    def __lt__(self, other: ComparedBy) -> bool:
        return self.compare(self.obj, other.obj) < 0

    def __gt__(self, other: ComparedBy) -> bool:
        return self.compare(self.obj, other.obj) > 0

    def __eq__(self, other: object) -> bool:
        return self.compare(self.obj, other.obj) == 0  # type: ignore[attr-defined]

    def __le__(self, other: ComparedBy) -> bool:
        return self.compare(self.obj, other.obj) <= 0

    def __ge__(self, other: ComparedBy) -> bool:
        return self.compare(self.obj, other.obj) >= 0
