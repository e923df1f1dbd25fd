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
from tracer.variables.values.constant import NONE, ConstantVariable, boolean

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen


_WHOLE = ("keys", "values", "items", "copy")  # methods that go through all names


class ClassNamespaceVariable(VariableTracker):
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

    def truth(self, tx: Tracer) -> bool:
        return True

    def find(self, tx: Tracer, key: VariableTracker) -> VariableTracker | None:
        name = key.constant() if key.is_constant() else None
        if type(name) is not str:
            unsupported("unsupported-subscript", value=self.describe(), key=key.describe())
        cls = self.cls.value
        refuse_changed_class(tx, cls, name)
        return tx.class_attr(cls, name, self.cls) if lookup(cls, name)[0] is cls else None

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        return boolean(self.find(tx, item) is not None)

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        return self.find(tx, key) or tx.raise_error(KeyError, key.constant())

    def length(self, tx: Tracer) -> VariableTracker:
        return ConstantVariable(len(self._names(tx)))

    def iterate(self, tx: Tracer) -> VariableTracker:
        return self._copied(tx, with_values=False).iterate(tx)

    def _names(self, tx: Tracer) -> tuple[str, ...]:
        """All names, guarded."""
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

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in ("get", "__contains__", "__getitem__", *_WHOLE):
            return tx.bound_builtin_method(self, name)
        return super().get_attr(tx, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name == "get" and len(args) in (1, 2) and not kwargs:
            return self.find(tx, args[0]) or (*args, NONE)[1]
        if name == "__contains__":
            return self.contains(tx, *args)
        if name == "__getitem__":
            return self.get_item(tx, *args)
        if name in _WHOLE and not args and not kwargs:
            return self._copied(tx, name != "keys").call_method(tx, name, [], {})
        unsupported("unsupported-method", value=self.describe(), name=name)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.load(self.cls)
        cg.load_attr("__dict__")
