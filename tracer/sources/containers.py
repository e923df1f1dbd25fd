"""Paths into lists, tuples, dicts and their subclasses, read as the builtin containers define it."""

from __future__ import annotations

import math
from typing import Any

from tracer.sources.base import FrameValues, ReadScope, Source, SourceCodegen, source_kind
from tracer.sources.reading import dict_key, dict_value, item

_INDEXED = (list, tuple, dict)
_CODE_CONSTANTS = (str, int, bool, bytes, float, complex, type(None), type(...))


def key_text(key: Any, scope: ReadScope) -> str:
    """A key as Python source: a literal where one says it exactly."""
    if type(key) in (str, int, bool, bytes, type(None)) or (type(key) is float and math.isfinite(key)):
        return repr(key)
    return scope.const(key, "key")


@source_kind
class ItemSource(Source):
    """`base[key]` of a list, tuple or dict (or a subclass, without its `__getitem__`).

    The key is a constant, or a DictKeySource of the same dict: then the value is found by position, and no key is
    hashed. `exact` says that a guard shows the base to be exactly list, tuple or dict: generated code subscripts it.
    """

    base: Source
    key: Any
    exact: bool = False

    def label(self) -> str:
        return f"{self.base.name}[{self.key.name if isinstance(self.key, Source) else repr(self.key)}]"

    def read(self, scope: ReadScope) -> str:
        if isinstance(self.key, DictKeySource):
            return DictValueSource(self.base, self.key.index).read(scope)
        container, key = scope.read(self.base), key_text(self.key, scope)
        if scope.exact_type(self.base) in _INDEXED:
            return f"{container}[{key}]"
        return f"___item({container}, {key})"

    def emit(self, cg: SourceCodegen) -> None:
        if isinstance(self.key, DictKeySource):
            return DictValueSource(self.base, self.key.index).emit(cg)
        if not self.exact:
            cg.load_callable(item)
        cg.source(self.base)
        load_key = cg.load_const if type(self.key) in _CODE_CONSTANTS else cg.load_object
        load_key(self.key)
        if self.exact:
            cg.getitem()
        else:
            cg.call(2)

    def get(self, values: FrameValues) -> Any:
        if isinstance(self.key, DictKeySource):
            return dict_value(self.base.get(values), self.key.index)
        return item(self.base.get(values), self.key)

    def _fields(self) -> tuple[Any, ...]:
        return self.base, self.key  # `exact` changes how the value is loaded, not which it is

    def __reduce__(self) -> tuple[Any, ...]:
        return ItemSource, (self.base, self.key, self.exact)


@source_kind
class DictKeySource(Source):
    """The i-th key of a dict, in order of insertion."""

    base: Source
    index: int

    def label(self) -> str:
        return f"list({self.base.name})[{self.index}]"

    def read(self, scope: ReadScope) -> str:
        return f"___dict_key({scope.read(self.base)}, {self.index})"

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_callable(dict_key)
        cg.source(self.base)
        cg.load_const(self.index)
        cg.call(2)

    def get(self, values: FrameValues) -> Any:
        return dict_key(self.base.get(values), self.index)


@source_kind
class DictValueSource(Source):
    """The value of the i-th key: for keys whose hash or equality is user code."""

    base: Source
    index: int

    def label(self) -> str:
        return f"list({self.base.name}.values())[{self.index}]"

    def read(self, scope: ReadScope) -> str:
        return f"___dict_value({scope.read(self.base)}, {self.index})"

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_callable(dict_value)
        cg.source(self.base)
        cg.load_const(self.index)
        cg.call(2)

    def get(self, values: FrameValues) -> Any:
        return dict_value(self.base.get(values), self.index)
