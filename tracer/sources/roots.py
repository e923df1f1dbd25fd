"""Where paths begin: arguments, globals, closure cells, builtins, modules, and objects that are simply known.

Each says for itself how it is found; some are a step from another, and say only what is shorter.
"""

from __future__ import annotations

import sys
from types import CellType
from typing import Any

from tracer._C import STEP
from tracer.sources import steps
from tracer.sources.base import CLOSURE, FrameValues, ReadScope, RootSource, SourceCodegen, StepScope, source_kind


@source_kind
class LocalSource(RootSource):
    """An argument slot of the frame."""

    local_name: str
    root_kind = "local"
    named = "L[{self.local_name!r}]"

    def read(self, scope: ReadScope) -> str:
        return scope.local(self.local_name)

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_local(self.local_name)

    def get(self, values: FrameValues) -> Any:
        return values.locals[self.local_name]

    def slot(self) -> str:
        return self.local_name

    def begin(self, scope: StepScope) -> int:
        return scope.argument(self.local_name)


@source_kind
class GlobalsSource(RootSource):
    """The globals dict of the root frame itself."""

    root_kind = "global"
    named = "G"

    def read(self, scope: ReadScope) -> str:
        return scope.globals()

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_callable(globals)  # the builtin gives those of whichever frame calls it
        cg.call(0)

    def get(self, values: FrameValues) -> Any:
        return values.globals

    def begin(self, scope: StepScope) -> int:
        return scope.globals()


@source_kind
class GlobalSource(RootSource):
    """A global of the root frame."""

    global_name: str
    root_kind = "global"
    way = (steps.SUBSCRIPT,)
    named = "G[{self.global_name!r}]"

    def origin(self) -> GlobalsSource:
        return GlobalsSource()

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_global(self.global_name)


@source_kind
class CellSource(RootSource):
    """A closure cell of the root frame, as an object."""

    var_name: str
    root_kind = "cell"
    named = "C[{self.var_name!r}]"
    leads_to = CellType

    def read(self, scope: ReadScope) -> str:
        return scope.cell(self.var_name)

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_closure_cell(self.var_name)

    def get(self, values: FrameValues) -> CellType:
        return values.closure[self.var_name]

    def slot(self) -> str:
        return CLOSURE

    def begin(self, scope: StepScope) -> int:
        return scope.cell(self.var_name)


@source_kind
class FreeVarSource(RootSource):
    """The contents of a closure cell of the root frame; the frame sees it as a local, and so do logs."""

    var_name: str
    root_kind = "local"
    way = (steps.CELL_CONTENTS,)
    named = "L[{self.var_name!r}]"

    def origin(self) -> CellSource:
        return CellSource(self.var_name)

    def slot(self) -> str:
        return CLOSURE

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_cell_contents(self.var_name)


@source_kind
class BuiltinSource(RootSource):
    """A builtin, found because the globals have no such name (guard that with `NotInGlobals`)."""

    builtin_name: str
    root_kind = "builtin"
    named = "G['__builtins__'][{self.builtin_name!r}]"
    found_by_name = True

    def read(self, scope: ReadScope) -> str:
        return f"{scope.builtins()}[{self.builtin_name!r}]"

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_builtin(self.builtin_name)

    def get(self, values: FrameValues) -> Any:
        return values.builtins[self.builtin_name]

    def begin(self, scope: StepScope) -> int:
        return scope.add(STEP.ITEM, scope.namespace(None), self.builtin_name)


@source_kind
class HandledSource(RootSource):
    """The exception that is being handled where the frame is called, or None."""

    root_kind = "global"
    named = "sys.exception()"

    def read(self, scope: ReadScope) -> str:
        return f"{scope.const(sys.exception, 'exception')}()"

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_callable(sys.exception)
        cg.call(0)

    def get(self, values: FrameValues) -> Any:
        return sys.exception()


@source_kind
class ModuleSource(RootSource):
    """`sys.modules[name]`."""

    module_name: str
    root_kind = "module"
    named = "sys.modules[{self.module_name!r}]"
    found_by_name = True

    def read(self, scope: ReadScope) -> str:
        return f"{scope.const(sys.modules, 'modules')}[{self.module_name!r}]"

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_object(sys.modules)
        cg.load_const(self.module_name)
        cg.getitem()

    def get(self, values: FrameValues) -> Any:
        return sys.modules[self.module_name]

    def begin(self, scope: StepScope) -> int:
        return scope.add(STEP.ITEM, scope.constant(sys.modules), self.module_name)


@source_kind
class ModuleNamespaceSource(RootSource):
    """The whole globals dict of an imported module."""

    module_name: str
    root_kind = "global"
    named = "sys.modules[{self.module_name!r}].__dict__"
    found_by_name = True

    def read(self, scope: ReadScope) -> str:
        return scope.module_globals(self.module_name)

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_object(module_namespace(self.module_name))

    def get(self, values: FrameValues) -> Any:
        return module_namespace(self.module_name)

    def begin(self, scope: StepScope) -> int:
        return scope.namespace(self.module_name)


@source_kind
class ModuleGlobalsSource(RootSource):
    """A global of an inlined function that lives in an imported module."""

    module_name: str
    global_name: str
    root_kind = "global"
    way = (steps.SUBSCRIPT,)
    named = "sys.modules[{self.module_name!r}].{self.global_name}"
    found_by_name = True

    def origin(self) -> ModuleNamespaceSource:
        return ModuleNamespaceSource(self.module_name)


@source_kind
class ObjectSource(RootSource):
    """An object that is known without asking the frame, under a name for the logs; whoever uses it keeps it alive."""

    obj: Any
    shown: str
    made: tuple[Any, ...] = ()  # a function and arguments that give such an object, where others do as well

    def label(self) -> str:
        return self.shown

    def read(self, scope: ReadScope) -> str:
        return scope.const(self.obj, "obj")

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_object(self.obj)

    def get(self, values: FrameValues) -> Any:
        return self.obj

    def begin(self, scope: StepScope) -> int:
        return scope.constant(self.obj)

    def _fields(self) -> tuple[Any, ...]:
        return id(self.obj), self.shown  # by identity: the object's own __eq__ and __hash__ are not asked

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectSource, (self.obj, self.shown, self.made)


def module_namespace(name: str) -> dict[str, Any]:
    """The globals dict of an imported module; KeyError if it is not imported."""
    return sys.modules[name].__dict__


def namespace_source(namespace: dict[str, Any], of_root: dict[str, Any]) -> GlobalsSource | ModuleNamespaceSource | None:
    """How the globals of a function are reached that are those of the root frame, or of an importable module."""
    if namespace is of_root:
        return GlobalsSource()
    name = namespace.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    return ModuleNamespaceSource(name) if module is not None and vars(module) is namespace else None  # type: ignore[arg-type]  # a module was found by it
