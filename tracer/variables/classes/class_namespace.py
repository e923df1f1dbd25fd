"""`cls.__dict__` and `vars(cls)`. A lookup of one name is guarded by itself; what goes through the names guards all of them."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.guards.class_shape import ClassNamesMatch
from tracer.protocol.lookups import lookup, refuse_changed_class
from tracer.protocol.variable import VariableTracker
from tracer.sources.reading import is_heap_type, type_dict
from tracer.sources.roots import ObjectSource
from tracer.variables.namespaces import NamespaceVariable
from tracer.variables.values.constant import NONE

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen


class ClassNamespaceVariable(NamespaceVariable):
    def __init__(self, cls: Any) -> None:
        self.cls = cls

    def python_type(self) -> type:
        return types.MappingProxyType

    def describe(self) -> str:
        return f"ClassNamespaceVariable({self.cls.value.__qualname__})"

    def identity(self) -> Any:
        return object()  # every read of __dict__ makes a new proxy

    def children(self) -> Iterable[VariableTracker]:
        return (self.cls,)

    def find(self, tx: Tracer, key: VariableTracker) -> VariableTracker | None:
        name = key.constant() if key.is_constant() else None
        if type(name) is not str:
            unsupported("unsupported-subscript", value=self.describe(), key=key.describe())
        cls = self.cls.value
        refuse_changed_class(tx, cls, name)
        return tx.class_attr(cls, name, self.cls) if lookup(cls, name)[0] is cls else None

    def _names(self, tx: Tracer) -> tuple[str, ...]:
        cls = self.cls.value
        if tx.effects.has_changed_class(cls):
            unsupported("unsupported-iteration", value=self.describe())
        names = tuple(type_dict(cls))
        if is_heap_type(cls):
            if id(cls) in tx.trace.findings.made:
                unsupported("unsupported-iteration", value=self.describe())
            source = self.cls.source or ObjectSource(cls, cls.__qualname__)  # a base of a class that is guarded
            tx.guard(ClassNamesMatch(source, names))
        return names

    def _copied(self, tx: Tracer, with_values: bool) -> VariableTracker:
        cls = self.cls.value
        names = self._names(tx)
        return tx.new_dict({name: tx.class_attr(cls, name, self.cls) if with_values else NONE for name in names})

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.load(self.cls)
        cg.load_attr("__dict__")
