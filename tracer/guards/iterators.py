"""Guards on iterators of builtins: how many items they have left."""

from __future__ import annotations

from typing import Any, ClassVar

from tracer.guards.base import CheckScope, Guard, Mismatch, guard_kind
from tracer.sources.base import Source
from tracer.sources.builtin_iterators import items_left


@guard_kind
class ItemsLeft(Guard):
    """An iterator has at least, or exactly, `count` items left."""

    source: Source
    count: int
    exactly: bool
    kind: ClassVar[str] = "ITEMS_LEFT"
    rank: ClassVar[int] = 2

    def _relation(self) -> str:
        return f"{'==' if self.exactly else '>='} {self.count}"

    def check(self, code: CheckScope) -> str | None:
        return f"___items_left({code.read(self.source)}) {self._relation()}"

    def lines(self) -> list[str]:
        return [f"items_left({self.source.name}) {self._relation()}"]

    def explain(self, *seen: Any) -> Mismatch:
        return Mismatch(self.lines()[0], str(self.count), str(items_left(seen[0])))
