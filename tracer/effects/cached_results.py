"""Results of cached functions (functools.lru_cache). Every call with the same arguments returns the same object, so the output
code calls the cached function again, and does not make a copy of what the trace saw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tracer.protocol.variable import VariableTracker


class CachedCall(NamedTuple):
    """A call of a cached function; `names` are those of its keyword arguments, which stand last in `args`."""

    function: VariableTracker
    args: tuple[VariableTracker, ...]
    names: tuple[str, ...]
    result: VariableTracker


class Part(NamedTuple):
    """Where an object is found in the result of a cached function: `parent[key]`, or an attribute of `parent`. The result itself
    has no parent."""

    parent: VariableTracker | None
    key: Any = None
    is_attribute: bool = False


class CachedObjects:
    """The calls of cached functions in one trace, in order, and the objects in their results."""

    def __init__(self) -> None:
        self.calls: list[CachedCall] = []
        self.parts: dict[VariableTracker, Part] = {}
        self.results: dict[Any, VariableTracker] = {}  # by function and key

    def may_alias(self, one: VariableTracker, other: VariableTracker) -> bool:
        """Whether two different tracked values may be the same object, because one is in a cache, and so may be elsewhere too."""
        if one is other or not (one in self.parts or other in self.parts):
            return False
        return not one.is_constant() and not other.is_constant() and one.python_type() is other.python_type()
