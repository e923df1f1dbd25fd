"""What a dict that existed before the frame was asked by key: such reads rely on nothing but these keys."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tracer import guards
from tracer.sources import ItemSource
from tracer.variables.constant import ConstantVariable
from tracer.variables.lazy import Unwrapped

if TYPE_CHECKING:
    from tracer.sources import Source
    from tracer.variables.base import VariableTracker


class ReadByKey:
    """A dict of which the program has seen no more than whether it has some keys, and their values.

    `held` is what it had when it was met, `met` those of the keys that were looked for: to (key, value), or to None where the
    dict has none. `whole` is for what looks at it in any other way."""

    def __init__(self, held: dict[Any, Any], source: Source, guard: Callable[[guards.Guard], None]) -> None:
        self._held = held
        self._source = source
        self._guard = guard
        self.met: dict[Any, tuple[VariableTracker, Any] | None] = {}

    @staticmethod
    def suits(held: dict[Any, Any]) -> bool:
        return all(map(guards.can_be_key, held))

    def look(self, key: Any) -> bool:
        """Whether the dict has a key, which is one that a guard can name; guarded."""
        if key not in self.met:
            present = key in self._held
            self._guard(guards.DictContains(self._source, key, present))
            self.met[key] = self._pair(key) if present else None
        return self.met[key] is not None

    def _pair(self, key: Any) -> tuple[VariableTracker, Any]:
        return ConstantVariable(key), Unwrapped(self._held[key], ItemSource(self._source, key))

    def holdings(self) -> Iterator[Unwrapped]:
        """All values, which nobody is to rely on."""
        return (Unwrapped(value, self._source) for value in self._held.values())

    def whole(self) -> dict[Any, tuple[VariableTracker, Any]]:
        """All entries, in order, with a guard on all keys."""
        self._guard(guards.DictKeysMatch(self._source, tuple(self._held)))
        met = {key: pair[1] for key, pair in self.met.items() if pair is not None}
        pairs = {key: self._pair(key) for key in self._held}
        return {key: (pair[0], met.get(key, pair[1])) for key, pair in pairs.items()}
