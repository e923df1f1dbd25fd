"""Paths into functions, cells and bound methods: defaults, closures, globals, `__self__` and `__func__`."""

from __future__ import annotations

from types import CellType

from tracer.sources import steps
from tracer.sources.base import Source, source_kind


@source_kind
class DefaultSource(Source):
    """`base.__defaults__[index]` of a function."""

    base: Source
    index: int
    way = (steps.DEFAULTS, steps.SUBSCRIPT)
    named = "{self.base}.__defaults__[{self.index}]"


@source_kind
class DefaultsSource(Source):
    """`base.__defaults__`: the tuple itself, or None."""

    base: Source
    way = (steps.DEFAULTS,)
    named = "{self.base}.__defaults__"


@source_kind
class KwDefaultsSource(Source):
    """`base.__kwdefaults__`: the dict itself, or None."""

    base: Source
    way = (steps.KWDEFAULTS,)
    named = "{self.base}.__kwdefaults__"


@source_kind
class KwDefaultSource(Source):
    """`base.__kwdefaults__[key]` of a function."""

    base: Source
    key: str
    way = (steps.KWDEFAULTS, steps.SUBSCRIPT)
    named = "{self.base}.__kwdefaults__[{self.key!r}]"


@source_kind
class ClosureCellSource(Source):
    """`base.__closure__[index]`: a cell of a function."""

    base: Source
    index: int
    way = (steps.CLOSURE, steps.SUBSCRIPT)
    named = "{self.base}.__closure__[{self.index}]"
    leads_to = CellType
    is_kept = True


@source_kind
class CellContentsSource(Source):
    """`base.cell_contents`; ValueError for an empty cell."""

    base: Source
    way = (steps.CELL_CONTENTS,)
    named = "{self.base}.cell_contents"
    is_kept = True


@source_kind
class FunctionGlobalsSource(Source):
    """`base.__globals__[global_name]`: a global of a function whose module cannot be imported by name."""

    base: Source
    global_name: str
    way = (steps.GLOBALS, steps.SUBSCRIPT)
    named = "{self.base}.__globals__[{self.global_name!r}]"


@source_kind
class FunctionNamespaceSource(Source):
    """`base.__globals__`: the dict itself."""

    base: Source
    way = (steps.GLOBALS,)
    named = "{self.base}.__globals__"


@source_kind
class CodeSource(Source):
    """`base.__code__` of a function."""

    base: Source
    way = (steps.CODE,)
    named = "{self.base}.__code__"


@source_kind
class MethodSelfSource(Source):
    """`base.__self__` of a bound method."""

    base: Source
    way = (steps.METHOD_SELF,)
    named = "{self.base}.__self__"
    is_kept = True


@source_kind
class MethodFuncSource(Source):
    """`base.__func__` of a bound method."""

    base: Source
    way = (steps.METHOD_FUNC,)
    named = "{self.base}.__func__"
