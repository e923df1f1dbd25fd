"""What the table of a cache (functools.lru_cache) holds, read without calling the cache, which would count the call."""

from __future__ import annotations

import functools
import gc
from typing import Any, NamedTuple

from tracer.guards.caches import NOTHING


class Place(NamedTuple):
    """Where a cache keeps the result for one key, whether or not it has one now."""

    table: dict[Any, Any]
    key: Any
    function: Any

    @property
    def found(self) -> Any:
        """What the table has: the result, or the link of a cache that forgets, or `NOTHING`."""
        return self.table.get(self.key, NOTHING)

    def results(self) -> list[Any]:
        """The result that the cache has, or an empty list."""
        if self.key not in self.table:
            return []
        if type(self.found) is not _LINK:
            return [self.found]
        referents = gc.get_referents(self.function)
        return [referents[i - 1] for i in range(2, len(referents)) if referents[i] is _LINK and referents[i - 2] == self.key]


def place_of(function: Any, args: list[Any], kwargs: dict[str, Any]) -> Place:
    """Found among what the garbage collector traverses, which runs no code of the program: for each link its key, its result and
    its type, then the table (Modules/_functoolsmodule.c)."""
    referents = gc.get_referents(function)
    table = next(part for part in referents if type(part) is dict and part is not vars(function))
    key: Any = tuple(args)
    if kwargs:
        mark = next(part for part in referents if type(part) is object)
        key += (mark, *(part for pair in kwargs.items() for part in pair))
    if function.cache_parameters()["typed"]:
        key += tuple(map(type, (*args, *kwargs.values())))
    elif len(args) == 1 and not kwargs and type(args[0]) in (int, str):
        key = args[0]
    return Place(table, key, function)


@functools.lru_cache
def _cached_once(number: int) -> int:
    return number


_cached_once(1)
_LINK = type(place_of(_cached_once, [1], {}).found)
