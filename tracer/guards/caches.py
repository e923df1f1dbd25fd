"""The guard on what a cache (functools.lru_cache) holds."""

from __future__ import annotations

from typing import Any, ClassVar

from tracer.guards.base import CheckScope, Guard, Mismatch, guard_kind, shown
from tracer.guards.references import ObjectRef
from tracer.sources.base import Source


class Nothing:
    """What a table has for a key that is not there."""

    def __reduce__(self) -> str:
        return "NOTHING"


NOTHING = Nothing()


@guard_kind
class CacheMatch(Guard):
    """What the table of a cache has for a key: this object, or `NOTHING`."""

    source: Source  # of the table
    key: Any
    held: Any
    kind: ClassVar[str] = "CACHE_MATCH"

    def __post_init__(self) -> None:
        if type(self.held) is not ObjectRef:
            object.__setattr__(self, "held", ObjectRef(self.held))

    @property
    def _is_empty(self) -> bool:
        return self.held.get() is NOTHING

    def check(self, code: CheckScope) -> str | None:
        key, nothing = code.const(self.key, "key"), code.const(NOTHING, "nothing")
        return f"{code.read(self.source)}.get({key}, {nothing}) is {code.const(self.held.get(), 'held')}"

    def lines(self) -> list[str]:
        return [f"{self.source.name} {'has nothing' if self._is_empty else 'has the same result'} for {shown(self.key)}"]

    def explain(self, *seen: Any) -> Mismatch:
        words = ("nothing", "a result") if self._is_empty else ("the result that was traced", "another one, or none")
        return Mismatch(self.lines()[0], *words)
