"""What a dict that existed before the frame was asked by key, and what was stored in it: such steps rely on these keys alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tracer import guards
from tracer.protocol.lazy import Unwrapped
from tracer.sources import ItemSource
from tracer.variables.values.constant import ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.variable import VariableTracker
    from tracer.sources import Source

Pair = tuple["VariableTracker", Any]


class ReadByKey:
    """A dict of which the program has seen no more than whether it has some keys, and their values.

    `held` is what it had when it was met, `met` what it has now for the keys that were looked for: (key, value), or None. Keys
    that are `added` come behind those that it had. `whole` is for what looks at it in any other way."""

    def __init__(self, held: dict[Any, Any], source: Source, guard: Callable[[guards.Guard], None]) -> None:
        self._held = held
        self._source = source
        self._guard = guard
        self.met: dict[Any, Pair | None] = {}
        self.added: dict[Any, None] = {}

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

    def reaches(self, count: int) -> bool:
        """Whether the dict has at least so many keys; guarded, unless those that were found or added are enough."""
        if sum(pair is not None for pair in self.met.values()) >= count:
            return True
        held = count - len(self.added)
        holds = len(self._held) >= held
        self._guard(guards.DictLengthReaches(self._source, held, holds))
        return holds

    def _pair(self, key: Any) -> Pair:
        return ConstantVariable(key), Unwrapped(self._held[key], ItemSource(self._source, key))

    def holdings(self) -> Iterator[Any]:
        """All values that it has now, which nobody is to rely on."""
        for key, value in self._held.items():
            if self.met.get(key) is None:
                yield Unwrapped(value, self._source)
        yield from (pair[1] for pair in self.met.values() if pair is not None)

    def store(self, key: Any, pair: Pair) -> Pair | None:
        """What the key had before."""
        old = self.met[key] if self.look(key) else None
        if old is None:
            self.added[key] = None
        self.met[key] = pair if old is None else (old[0], pair[1])
        return old

    def stored(self, changed: Iterable[Any]) -> list[Pair]:
        """What is to be stored where these keys have changed."""
        return [pair for key in (*(key for key in changed if key not in self.added), *self.added) if (pair := self.met[key])]

    def keys(self) -> dict[Any, VariableTracker]:
        """Those that it had."""
        return {key: ConstantVariable(key) for key in self._held}

    def whole(self) -> dict[Any, Pair]:
        """All entries as they are now, in order, with a guard on all keys that it had."""
        self._guard(guards.DictKeysMatch(self._source, tuple(self._held)))
        entries = {key: self._pair(key) for key in self._held}
        for key, pair in self.met.items():
            if pair is not None and key not in self.added:
                entries[key] = entries[key][0], pair[1]
        return {**entries, **{key: pair for key in self.added if (pair := self.met[key])}}
