"""The guard on what a cache (functools.lru_cache) holds."""

from __future__ import annotations

from typing import Any, ClassVar

from tracer.guards.base import CheckScope, Guard, Mismatch, guard_kind
from tracer.guards.references import ObjectRef
from tracer.sources.base import Source


@guard_kind
class CacheMatch(Guard):
    """What the table of a cache has for a key: this object, or nothing (None)."""

    source: Source  # of the table
    key: Any
    held: Any
    kind: ClassVar[str] = "CACHE_MATCH"

    def __post_init__(self) -> None:
        if self.held is not None and type(self.held) is not ObjectRef:
            object.__setattr__(self, "held", ObjectRef(self.held))

    def check(self, code: CheckScope) -> str | None:
        held = "None" if self.held is None else code.const(self.held.get(), "held")
        return f"{code.read(self.source)}.get({code.const(self.key, 'key')}) is {held}"

    def lines(self) -> list[str]:
        return [f"{self.source.name} {'has nothing' if self.held is None else 'has the same result'} for {self.key!r}"]

    def explain(self, *seen: Any) -> Mismatch:
        words = ("nothing", "a result") if self.held is None else ("the result that was traced", "another one, or none")
        return Mismatch(self.lines()[0], *words)
