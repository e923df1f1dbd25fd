"""Reads and stores by key in a dict that existed before the frame. They need guards on the keys involved only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tracer.guards.base import Guard
from tracer.guards.containers import DictContains, DictKeysMatch, DictLengthReaches, can_be_key
from tracer.protocol.lazy import Unwrapped
from tracer.sources.containers import ItemSource
from tracer.variables.values.constant import ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.variable import VariableTracker
    from tracer.sources.base import Source

Pair = tuple["VariableTracker", Any]


class ReadByKey:
    """A dict of which the program has seen only whether it has certain keys, and the values of those.

    `held` is the real dict as it was when the trace met it. `met` maps each key that was looked up to its present (key, value),
    or to None if it is absent. Keys in `added` come after the original ones, of which those in `removed` are gone. Any other use
    of the dict calls `whole`."""

    def __init__(self, held: dict[Any, Any], source: Source, guard: Callable[[Guard], None]) -> None:
        self._held = held
        self._source = source
        self._guard = guard
        self.met: dict[Any, Pair | None] = {}
        self.added: dict[Any, None] = {}
        self.removed: dict[Any, None] = {}

    @staticmethod
    def suits(held: dict[Any, Any]) -> bool:
        return all(map(can_be_key, held))

    def look(self, key: Any) -> bool:
        """Whether the dict has the key, with a guard on the answer. The key must be one that a guard can name."""
        if key not in self.met:
            present = key in self._held
            self.see_key(key, present)
            self.met[key] = self._pair(key) if present else None
        return self.met[key] is not None

    def present(self) -> list[Any]:
        """The keys that the dict has now, without a guard: the caller must not rely on them."""
        kept = [key for key in self._held if key not in self.removed]
        return [*kept, *(key for key in self.added if key not in self._held)]

    def reaches(self, count: int) -> bool:
        """Whether the dict has at least `count` keys, with a guard unless the keys found or added so far are enough."""
        if sum(pair is not None for pair in self.met.values()) >= count:
            return True
        held = count - len(self.added) + len(self.removed)
        holds = len(self._held) >= held
        self.see_length(held, holds)
        return holds

    # -- what the program sees of the real dict ------------------------------------------------------------------

    def see_key(self, key: Any, present: bool) -> None:
        self._guard(DictContains(self._source, key, present))

    def see_length(self, count: int, holds: bool) -> None:
        self._guard(DictLengthReaches(self._source, count, holds))

    def see_all(self) -> None:
        """All keys, and their order."""
        self._guard(DictKeysMatch(self._source, tuple(self._held)))

    # ------------------------------------------------------------------------------------------------------------

    def _pair(self, key: Any) -> Pair:
        return ConstantVariable(key), Unwrapped(self._held[key], ItemSource(self._source, key))

    def holdings(self) -> Iterator[Any]:
        """All values that the dict has now, without a guard: the caller must not rely on them."""
        for key, value in self._held.items():
            if key not in self.met:
                yield Unwrapped(value, self._source)
        yield from (pair[1] for pair in self.met.values() if pair is not None)

    def store(self, key: Any, pair: Pair) -> Pair | None:
        """Stores the pair and returns the previous one, or None if the key is new."""
        old = self.met[key] if self.look(key) else None
        if old is None:
            self.added[key] = None
        self.met[key] = pair if old is None else (old[0], pair[1])
        return old

    def remove(self, key: Any) -> None:
        """Removes a key that `look` has found."""
        self.met[key] = None
        if key in self.added:
            del self.added[key]
        else:
            self.removed[key] = None

    def stored(self, changed: Iterable[Any]) -> list[Pair]:
        """The pairs to store in the real dict, given which keys have changed: those with new values, then the added keys."""
        return [pair for key in (*(key for key in changed if key not in self.added), *self.added) if (pair := self.met[key])]

    def keys(self) -> dict[Any, VariableTracker]:
        """The keys that the dict had before the frame."""
        return {key: ConstantVariable(key) for key in self._held}

    def whole(self) -> dict[Any, Pair]:
        """All present entries, in order, with a guard on all keys that the dict had before the frame."""
        self.see_all()
        entries = {key: self._pair(key) for key in self._held if key not in self.removed}
        for key, pair in self.met.items():
            if pair is not None and key in entries and key not in self.added:
                entries[key] = entries[key][0], pair[1]
        return {**entries, **{key: pair for key in self.added if (pair := self.met[key])}}
