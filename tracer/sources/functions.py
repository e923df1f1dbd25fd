"""Paths into functions, cells and bound methods: defaults, closures, globals, `__self__` and `__func__`."""

from __future__ import annotations

from types import CellType, FunctionType, MethodType
from typing import Any

from tracer.sources.base import FrameValues, ReadScope, Source, SourceCodegen, source_kind
from tracer.sources.reading import (
    cell_contents,
    function_closure,
    function_code,
    function_defaults,
    function_globals,
    function_kwdefaults,
    method_func,
    method_self,
)


def _slot(scope: ReadScope, base: Source, kind: type, attr: str, helper: str) -> str:
    """An attribute of a C type: by name where the exact type has been shown, else by a helper that checks it."""
    value = scope.read(base)
    return f"{value}.{attr}" if scope.exact_type(base) is kind else f"{helper}({value})"


def _emit_slot(cg: SourceCodegen, base: Source, read: object) -> None:
    cg.load_callable(read)
    cg.source(base)
    cg.call(1)


@source_kind
class DefaultSource(Source):
    """`base.__defaults__[index]` of a function."""

    base: Source
    index: int

    def label(self) -> str:
        return f"{self.base.name}.__defaults__[{self.index}]"

    def read(self, scope: ReadScope) -> str:
        return f"{_slot(scope, self.base, FunctionType, '__defaults__', '___defaults_of')}[{self.index}]"

    def emit(self, cg: SourceCodegen) -> None:
        _emit_slot(cg, self.base, function_defaults)
        cg.load_const(self.index)
        cg.getitem()

    def get(self, values: FrameValues) -> Any:
        return function_defaults(self.base.get(values))[self.index]


@source_kind
class DefaultsSource(Source):
    """`base.__defaults__`: the tuple itself, or None."""

    base: Source

    def label(self) -> str:
        return f"{self.base.name}.__defaults__"

    def read(self, scope: ReadScope) -> str:
        return _slot(scope, self.base, FunctionType, "__defaults__", "___defaults_of")

    def emit(self, cg: SourceCodegen) -> None:
        _emit_slot(cg, self.base, function_defaults)

    def get(self, values: FrameValues) -> Any:
        return function_defaults(self.base.get(values))


@source_kind
class KwDefaultsSource(Source):
    """`base.__kwdefaults__`: the dict itself, or None."""

    base: Source

    def label(self) -> str:
        return f"{self.base.name}.__kwdefaults__"

    def read(self, scope: ReadScope) -> str:
        return _slot(scope, self.base, FunctionType, "__kwdefaults__", "___kwdefaults_of")

    def emit(self, cg: SourceCodegen) -> None:
        _emit_slot(cg, self.base, function_kwdefaults)

    def get(self, values: FrameValues) -> Any:
        return function_kwdefaults(self.base.get(values))


@source_kind
class KwDefaultSource(Source):
    """`base.__kwdefaults__[key]` of a function."""

    base: Source
    key: str

    def label(self) -> str:
        return f"{self.base.name}.__kwdefaults__[{self.key!r}]"

    def read(self, scope: ReadScope) -> str:
        return f"{_slot(scope, self.base, FunctionType, '__kwdefaults__', '___kwdefaults_of')}[{self.key!r}]"

    def emit(self, cg: SourceCodegen) -> None:
        _emit_slot(cg, self.base, function_kwdefaults)
        cg.load_const(self.key)
        cg.getitem()

    def get(self, values: FrameValues) -> Any:
        return function_kwdefaults(self.base.get(values))[self.key]


@source_kind
class ClosureCellSource(Source):
    """`base.__closure__[index]`: a cell of a function."""

    base: Source
    index: int

    def label(self) -> str:
        return f"{self.base.name}.__closure__[{self.index}]"

    def read(self, scope: ReadScope) -> str:
        return f"{_slot(scope, self.base, FunctionType, '__closure__', '___closure_of')}[{self.index}]"

    def emit(self, cg: SourceCodegen) -> None:
        _emit_slot(cg, self.base, function_closure)
        cg.load_const(self.index)
        cg.getitem()

    def get(self, values: FrameValues) -> CellType:
        found: CellType = function_closure(self.base.get(values))[self.index]
        return found


@source_kind
class CellContentsSource(Source):
    """`base.cell_contents`; ValueError for an empty cell."""

    base: Source

    def label(self) -> str:
        return f"{self.base.name}.cell_contents"

    def read(self, scope: ReadScope) -> str:
        value = scope.read(self.base)
        known_cell = isinstance(self.base, ClosureCellSource) or scope.exact_type(self.base) is CellType
        return f"{value}.cell_contents" if known_cell else f"___cell_contents({value})"

    def emit(self, cg: SourceCodegen) -> None:
        _emit_slot(cg, self.base, cell_contents)

    def get(self, values: FrameValues) -> Any:
        return cell_contents(self.base.get(values))


@source_kind
class FunctionGlobalsSource(Source):
    """`base.__globals__[global_name]`: a global of a function whose module cannot be imported by name."""

    base: Source
    global_name: str

    def label(self) -> str:
        return f"{self.base.name}.__globals__[{self.global_name!r}]"

    def read(self, scope: ReadScope) -> str:
        return f"{_slot(scope, self.base, FunctionType, '__globals__', '___globals_of')}[{self.global_name!r}]"

    def emit(self, cg: SourceCodegen) -> None:
        _emit_slot(cg, self.base, function_globals)
        cg.load_const(self.global_name)
        cg.getitem()

    def get(self, values: FrameValues) -> Any:
        return function_globals(self.base.get(values))[self.global_name]


@source_kind
class FunctionNamespaceSource(Source):
    """`base.__globals__`: the dict itself."""

    base: Source

    def label(self) -> str:
        return f"{self.base.name}.__globals__"

    def read(self, scope: ReadScope) -> str:
        return _slot(scope, self.base, FunctionType, "__globals__", "___globals_of")

    def emit(self, cg: SourceCodegen) -> None:
        _emit_slot(cg, self.base, function_globals)

    def get(self, values: FrameValues) -> Any:
        return function_globals(self.base.get(values))


@source_kind
class CodeSource(Source):
    """`base.__code__` of a function."""

    base: Source

    def label(self) -> str:
        return f"{self.base.name}.__code__"

    def read(self, scope: ReadScope) -> str:
        return _slot(scope, self.base, FunctionType, "__code__", "___code_of")

    def emit(self, cg: SourceCodegen) -> None:
        _emit_slot(cg, self.base, function_code)

    def get(self, values: FrameValues) -> Any:
        return function_code(self.base.get(values))


@source_kind
class MethodSelfSource(Source):
    """`base.__self__` of a bound method."""

    base: Source

    def label(self) -> str:
        return f"{self.base.name}.__self__"

    def read(self, scope: ReadScope) -> str:
        return _slot(scope, self.base, MethodType, "__self__", "___method_self")

    def emit(self, cg: SourceCodegen) -> None:
        _emit_slot(cg, self.base, method_self)

    def get(self, values: FrameValues) -> Any:
        return method_self(self.base.get(values))


@source_kind
class MethodFuncSource(Source):
    """`base.__func__` of a bound method."""

    base: Source

    def label(self) -> str:
        return f"{self.base.name}.__func__"

    def read(self, scope: ReadScope) -> str:
        return _slot(scope, self.base, MethodType, "__func__", "___method_func")

    def emit(self, cg: SourceCodegen) -> None:
        _emit_slot(cg, self.base, method_func)

    def get(self, values: FrameValues) -> Any:
        return method_func(self.base.get(values))
