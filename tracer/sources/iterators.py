"""Paths into iterators of builtins: the items that they will give, and what they are made of. Reading takes nothing."""

from __future__ import annotations

from typing import Any

from tracer.sources.base import FrameValues, ReadScope, Source, SourceCodegen, source_kind
from tracer.sources.builtin_iterators import iterator_parts, upcoming


@source_kind
class UpcomingSource(Source):
    """The item that an iterator gives after `ahead` more."""

    base: Source
    ahead: int

    def label(self) -> str:
        return f"upcoming({self.base.name})[{self.ahead}]"

    def read(self, scope: ReadScope) -> str:
        return f"___upcoming({scope.read(self.base)}, {self.ahead})"

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_callable(upcoming)
        cg.source(self.base)
        cg.load_const(self.ahead)
        cg.call(2)

    def get(self, values: FrameValues) -> Any:
        return upcoming(self.base.get(values), self.ahead)


@source_kind
class IteratorPartsSource(Source):
    """What a zip, enumerate, map or filter takes from: the arguments that would make it as it stands."""

    base: Source

    def label(self) -> str:
        return f"parts({self.base.name})"

    def read(self, scope: ReadScope) -> str:
        return f"___iterator_parts({scope.read(self.base)})"

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_callable(iterator_parts)
        cg.source(self.base)
        cg.call(1)

    def get(self, values: FrameValues) -> Any:
        return iterator_parts(self.base.get(values))
