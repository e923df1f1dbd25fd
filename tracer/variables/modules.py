"""Python modules: their attributes are the globals that traced code reads."""
from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.sources import GenericAttrSource, ModuleGlobalsSource, Source
from tracer.variables.base import VariableTracker
from tracer.variables.callables import BuiltinMethodVariable

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer

_MISSING = object()
_C_METHODS = (types.WrapperDescriptorType, types.MethodDescriptorType)


class PythonModuleVariable(VariableTracker):
    def __init__(self, value: types.ModuleType, source: Source | None = None) -> None:
        self.value = value
        self.source = source

    def python_type(self) -> type:
        return type(self.value)

    def describe(self) -> str:
        return f"PythonModuleVariable({self.value.__name__})"

    __repr__ = describe

    def identity(self) -> Any:
        return self.value

    def truth(self, tx: Tracer) -> bool:
        return True

    def hash_key(self, tx: Tracer) -> Any:
        return self.value

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        stored = tx.global_effect(vars(self.value), name)
        if stored is not None:
            return stored
        value = vars(self.value).get(name, _MISSING)
        if value is not _MISSING:
            return tx.wrap(value, self.attribute_source(name))
        if name in ("__dict__", "__class__"):
            unsupported("unsupported-attribute", value=self.describe(), name=name)
        if isinstance(getattr(types.ModuleType, name, None), _C_METHODS):
            return BuiltinMethodVariable(self, name)
        value = getattr(self.value, name, _MISSING)  # a module's own __getattr__, or a lazy submodule
        if value is _MISSING:
            tx.raise_error(AttributeError, f"module {self.value.__name__!r} has no attribute {name!r}")
        if vars(self.value).get(name, _MISSING) is not value:
            if self.source is None:
                unsupported("unsupported-attribute", value=self.describe(), name=name)
            return tx.wrap(value, GenericAttrSource(self.source, name))
        return tx.wrap(value, self.attribute_source(name))

    def attribute_source(self, name: str) -> Source:
        module_name = self.value.__name__
        if sys.modules.get(module_name) is self.value:
            return ModuleGlobalsSource(module_name, name)
        if self.source is None:
            unsupported("unsupported-attribute", value=self.describe(), name=name)
        return GenericAttrSource(self.source, name)

    def set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        tx.effects.store_global(vars(self.value), name, value)

    def reconstruct(self, cg: Any) -> None:
        cg.load_object(self.value)


