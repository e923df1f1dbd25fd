"""Python modules. Their attributes are the globals that traced code reads."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.guards.containers import DictContains, NotInGlobals
from tracer.protocol.lookups import MISSING, defines, is_data_descriptor, lookup
from tracer.protocol.variable import RealObjectVariable, VariableTracker
from tracer.sources.attributes import GenericAttrSource
from tracer.sources.base import Source
from tracer.sources.reading import is_a
from tracer.sources.roots import ModuleGlobalsSource, ModuleSource
from tracer.variables.functions.callables import BoundMethodVariable, BuiltinMethodVariable
from tracer.variables.module_namespace import ModuleNamespaceVariable
from tracer.variables.values.constant import ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_MISSING = object()
_C_METHODS = (types.WrapperDescriptorType, types.MethodDescriptorType)


class PythonModuleVariable(RealObjectVariable):
    value: types.ModuleType

    def describe(self) -> str:
        return f"PythonModuleVariable({self.value.__name__})"

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        stored = tx.effects.global_value(vars(self.value), name)
        if isinstance(stored, VariableTracker):
            return stored
        if not self._reads_plainly():
            unsupported("unsupported-attribute", value=self.describe(), name=name)
        value = vars(self.value).get(name, _MISSING)
        if value is not _MISSING:
            return tx.wrap(value, self.attribute_source(name))
        if name == "__dict__" and sys.modules.get(self.value.__name__) is self.value:
            return ModuleNamespaceVariable(self.value.__name__, vars(self.value))
        if name in ("__dict__", "__class__"):
            unsupported("unsupported-attribute", value=self.describe(), name=name)
        if isinstance(getattr(types.ModuleType, name, None), _C_METHODS):
            return BuiltinMethodVariable(self, name)
        if type(self.value).__module__.startswith("torch."):
            return self._attribute_of_namespace(tx, name)
        source = self.attribute_source(name)
        if isinstance(source, ModuleGlobalsSource):
            tx.guard(NotInGlobals(source))
        else:  # sys.modules does not have the module under its name
            assert self.source is not None
            tx.guard(DictContains(GenericAttrSource(self.source, "__dict__"), name, present=False))
        return self._computed_attr(tx, name)

    def _computed_attr(self, tx: Tracer, name: str) -> VariableTracker:
        """An attribute that is not in the module's dict: one of its class, or what a `__getattr__` gives."""
        kind = type(self.value)
        owner, static = lookup(kind, name)
        if is_a(static, property) and static.fget is not None:
            return tx.class_attr(owner, name, self, part="fget").call(tx, [self], {})
        if is_a(static, types.FunctionType):
            return BoundMethodVariable(tx.class_attr(owner, name, self), self)
        if is_a(static, staticmethod):
            return tx.class_attr(owner, name, self, part="__func__")
        if is_a(static, classmethod):
            return BoundMethodVariable(tx.class_attr(owner, name, self, part="__func__"), tx.class_variable(kind, self))
        if static is not MISSING and not defines(type(static), "__get__"):
            return tx.class_attr(owner, name, self)
        if static is not MISSING:
            unsupported("unsupported-attribute", value=self.describe(), name=name)
        function = vars(self.value).get("__getattr__")
        if isinstance(function, types.FunctionType):
            own = tx.wrap(function, self.attribute_source("__getattr__"))
            return own.call(tx, [ConstantVariable(name)], {})
        owner, hook = lookup(kind, "__getattr__")
        if function is None and is_a(hook, types.FunctionType):
            return tx.class_attr(owner, "__getattr__", self).call(tx, [self, ConstantVariable(name)], {})
        if function is not None or hook is not MISSING:
            unsupported("unsupported-attribute", value=self.describe(), name=name)
        tx.raise_error(AttributeError, f"module {self.value.__name__!r} has no attribute {name!r}")

    def _reads_plainly(self) -> bool:
        """Whether attributes in the module's dict can be read without running the program's code."""
        kind = type(self.value)
        return kind is types.ModuleType or lookup(kind, "__getattribute__")[0] is types.ModuleType

    def _attribute_of_namespace(self, tx: Tracer, name: str) -> VariableTracker:
        """An attribute of one of torch's modules that look operators up on demand, such as `torch.ops.aten`, or ask torch for a
        flag, such as `torch.backends.cudnn.enabled`. The flag of now need not be that at the entry, which a guard reads."""
        owner, static = lookup(type(self.value), name)
        if tx.trace.torch_state.changed and isinstance(lookup(type(static), "__get__")[1], types.FunctionType):
            return tx.class_attr(owner, name, self).call_method(tx, "__get__", [self, tx.class_variable(type(self.value))], {})
        value = getattr(self.value, name, _MISSING)
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
        if lookup(type(self.value), "__setattr__")[1] is not types.ModuleType.__setattr__:
            unsupported("unsupported-attribute-store", value=self.describe(), name=name)
        owner, static = lookup(type(self.value), name)
        if is_data_descriptor(static):
            if is_a(lookup(type(static), "__set__")[1], types.FunctionType):
                tx.class_attr(owner, name, self).call_method(tx, "__set__", [self, value], {})
                return
            unsupported("unsupported-attribute-store", value=self.describe(), name=name)
        tx.effects.store_global(vars(self.value), name, value, tx.break_step())


class LoadedModulesVariable(VariableTracker):
    """`sys.modules`. As it grows all the time, only lookups by name are supported, and only the names looked up are guarded."""

    def __init__(self, source: Source) -> None:
        self.source: Source = source

    def python_type(self) -> type:
        return dict

    def identity(self) -> Any:
        return sys.modules

    def truth(self, tx: Tracer) -> bool:
        return True

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        return tx.bound_builtin_method(self, name)

    def _find(self, tx: Tracer, key: VariableTracker) -> VariableTracker | None:
        name = key.constant() if key.is_constant() else None
        if type(name) is not str:
            unsupported("unsupported-subscript", value="sys.modules", key=key.describe())
        tx.guard(DictContains(self.source, name, name in sys.modules))
        return tx.wrap(sys.modules[name], ModuleSource(name)) if name in sys.modules else None

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        return ConstantVariable(self._find(tx, item) is not None)

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        found = self._find(tx, key)
        if found is None:
            tx.raise_error(KeyError, key.constant())
        return found

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name == "get" and len(args) in (1, 2) and not kwargs:
            return self._find(tx, args[0]) or (args[1] if len(args) == 2 else ConstantVariable(None))
        if name in ("__contains__", "__getitem__") and len(args) == 1 and not kwargs:
            return (self.contains if name == "__contains__" else self.get_item)(tx, args[0])
        unsupported("unsupported-method", value="sys.modules", name=name)
