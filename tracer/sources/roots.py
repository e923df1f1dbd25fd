"""Where paths begin: arguments, globals, closure cells, builtins, modules, and objects that the tracer knows.

Each class says itself how its value is found. Some are one step from another root source, and override only what can be shorter.
"""

from __future__ import annotations

import sys
from types import CellType
from typing import Any

import torch

from tracer._C import STEP
from tracer.sources import reading, steps
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
class ArgumentSource(RootSource):
    """An argument that the frame's function takes as part of *args or of **kwargs: the one at an index, or else of a name."""

    argument: str
    index: int
    args: str
    kwargs: str
    root_kind = "local"
    named = "L[{self.argument!r}]"
    within_slot = True

    def read(self, scope: ReadScope) -> str:
        args, kwargs = scope.local(self.args), scope.local(self.kwargs)
        return f"({args}[{self.index}] if len({args}) > {self.index} else {kwargs}[{self.argument!r}])"

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_callable(reading.argument)
        cg.load_local(self.args)
        cg.load_local(self.kwargs)
        cg.load_const(self.index)
        cg.load_const(self.argument)
        cg.call(4)

    def get(self, values: FrameValues) -> Any:
        return reading.argument(values.locals[self.args], values.locals[self.kwargs], self.index, self.argument)

    def slot(self) -> str:
        return self.args

    def given(self, scope: ReadScope) -> str:
        return f"(len({scope.local(self.args)}) > {self.index} or {self.argument!r} in {scope.local(self.kwargs)})"

    def begin(self, scope: StepScope) -> int:
        return scope.add(STEP.ARGUMENT, scope.argument(self.kwargs), (self.argument, scope.slot(self.args), self.index))


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
class FunctionModeSource(RootSource):
    """A torch-function mode that is on where the frame is called, by its place from the outermost one."""

    place: int
    root_kind = "global"
    named = "torch_function_modes[{self.place}]"

    def read(self, scope: ReadScope) -> str:
        return f"{scope.const(torch._C._get_function_stack_at, 'mode_at')}({self.place})"

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_callable(torch._C._get_function_stack_at)
        cg.load_const(self.place)
        cg.call(1)

    def get(self, values: FrameValues) -> Any:
        return torch._C._get_function_stack_at(self.place)


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
    """An object that the tracer itself knows, not reached from the frame. `shown` is its name in logs. Code that uses the source
    keeps the object alive."""

    obj: Any
    shown: str
    made: tuple[Any, ...] = ()  # a function and arguments that make an equal object, if any equal object will do

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
        return id(self.obj), self.shown  # by identity: the object's own __eq__ and __hash__ are not called

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectSource, (self.obj, self.shown, self.made)


def module_namespace(name: str) -> dict[str, Any]:
    """The globals dict of an imported module; KeyError if it is not imported."""
    return sys.modules[name].__dict__


def namespace_source(namespace: dict[str, Any], of_root: dict[str, Any]) -> GlobalsSource | ModuleNamespaceSource | None:
    """The source of a globals dict that is the root frame's, or that of a module that can be imported."""
    if namespace is of_root:
        return GlobalsSource()
    name = namespace.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    return ModuleNamespaceSource(name) if module is not None and vars(module) is namespace else None  # type: ignore[arg-type]  # a module was found by it
