"""Paths into lists, tuples, dicts and their subclasses, read as the builtin containers define it."""

from __future__ import annotations

from typing import Any

from tracer.sources import steps
from tracer.sources.base import Source, SourceCodegen, load_key, source_kind
from tracer.sources.steps import Step


@source_kind
class DictKeySource(Source):
    """The i-th key of a dict, in order of insertion."""

    base: Source
    index: int
    way = (steps.KEY_AT,)
    named = "list({self.base})[{self.index}]"


@source_kind
class DictValueSource(Source):
    """The value of the i-th key: for keys whose hash or equality is user code."""

    base: Source
    index: int
    way = (steps.VALUE_AT,)
    named = "list({self.base}.values())[{self.index}]"
    is_kept = True


@source_kind
class DictBehindSource(Source):
    """The dict that a mappingproxy or a view of a dict shows."""

    base: Source
    way = (steps.DICT_BEHIND,)
    named = "dict_behind({self.base})"
    is_part = True
    is_kept = True


@source_kind
class ItemSource(Source):
    """`base[key]` of a list, tuple or dict (or a subclass, without its `__getitem__`).

    The key is a constant, or a DictKeySource of the same dict: then the value is found by position, and no key is
    hashed. `exact` says that a guard shows the base to be exactly list, tuple or dict: generated code subscripts it.
    """

    base: Source
    key: Any
    exact: bool = False
    is_part = True
    is_kept = True

    def label(self) -> str:
        return f"{self.base.name}[{self.key.name if isinstance(self.key, Source) else repr(self.key)}]"

    def steps(self) -> tuple[tuple[Step, Any], ...]:
        """One step, chosen by the kind of key."""
        return ((steps.VALUE_AT, self.key.index) if isinstance(self.key, DictKeySource) else (steps.ITEM, self.key),)

    def emit(self, cg: SourceCodegen) -> None:
        """Only generated code may rely on `exact`: there the guards have been checked."""
        if not self.exact or isinstance(self.key, DictKeySource):
            Source.emit(self, cg)
        else:
            cg.source(self.base)
            load_key(self.key, cg)
            cg.getitem()

    def _fields(self) -> tuple[Any, ...]:
        return self.base, self.key  # `exact` changes how the value is loaded, not which it is

    def __reduce__(self) -> tuple[Any, ...]:
        return ItemSource, (self.base, self.key, self.exact)
