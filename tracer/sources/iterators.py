"""Paths into iterators of builtins: the items that they will give, and what they are made of. Reading takes nothing."""

from __future__ import annotations

from tracer.sources import steps
from tracer.sources.base import Source, source_kind


@source_kind
class UpcomingSource(Source):
    """The item that an iterator gives after `ahead` more."""

    base: Source
    ahead: int
    way = (steps.UPCOMING,)
    named = "upcoming({self.base})[{self.ahead}]"
    is_part = True


@source_kind
class IteratedSource(Source):
    """The container that an iterator takes from."""

    base: Source
    way = (steps.ITERATED,)
    named = "iterated({self.base})"


@source_kind
class IteratorPartsSource(Source):
    """The arguments that make a zip, enumerate, map, filter or count with the same remaining items."""

    base: Source
    way = (steps.ITERATOR_PARTS,)
    named = "parts({self.base})"
    is_part = is_kept = True
