"""Results that caches keep (functools.lru_cache): what the traced program gets of them are the very objects that every other
call of the cached function gets, too. The trace makes them as the function would, the output code asks the cache for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tracer.protocol.variable import VariableTracker


class Asked(NamedTuple):
    """A call of a cached function; `names` are those of the last arguments."""

    function: VariableTracker
    args: tuple[VariableTracker, ...]
    names: tuple[str, ...]
    result: VariableTracker


class Part(NamedTuple):
    """Where an object stands in what a cache keeps: `parent[key]`, or an attribute of it. A result itself has none."""

    parent: VariableTracker | None
    key: Any = None
    is_attribute: bool = False


class Kept:
    """The calls of one trace, in order, and the new objects that they gave."""

    def __init__(self) -> None:
        self.calls: list[Asked] = []
        self.parts: dict[VariableTracker, Part] = {}
        self.results: dict[Any, VariableTracker] = {}  # by function and key

    def may_be(self, one: VariableTracker, other: VariableTracker) -> bool:
        """Whether two values that the trace tells apart may be one object: what a cache keeps may be held elsewhere, too."""
        if one is other or not (one in self.parts or other in self.parts):
            return False
        return not one.is_constant() and not other.is_constant() and one.python_type() is other.python_type()
