"""`module.__dict__` and `globals()`. A lookup of one name is guarded by itself; what goes through the names guards all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.guards.containers import DictContains, DictKeysMatch, NotInGlobals
from tracer.protocol.variable import VariableTracker
from tracer.sources.roots import ModuleGlobalsSource, ModuleNamespaceSource, namespace_source
from tracer.variables.namespaces import NamespaceVariable
from tracer.variables.values.constant import NONE, ConstantVariable, boolean

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen


def module_of_namespace(values: dict[str, Any]) -> str | None:
    """The name under which `sys.modules` has the module of these globals; None if it has none."""
    name = values.get("__name__")
    return name if type(name) is str and namespace_source(values, {}) is not None else None


class ModuleNamespaceVariable(NamespaceVariable):
    """The globals of a module that is in `sys.modules` under its name."""

    def __init__(self, module: str, values: dict[str, Any]) -> None:
        self.module = module
        self.values = values

    def python_type(self) -> type:
        return dict

    def describe(self) -> str:
        return f"ModuleNamespaceVariable({self.module})"

    def identity(self) -> Any:
        return self.values

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        if op in ("==", "!=") and isinstance(other, ModuleNamespaceVariable) and other.values is self.values:
            return boolean(op == "==")
        unsupported("unsupported-operator", left=self.describe(), op=op, right=other.describe())

    def find(self, tx: Tracer, key: VariableTracker) -> VariableTracker | None:
        name = key.constant() if key.is_constant() else None
        if type(name) is not str:
            unsupported("unsupported-subscript", value=self.describe(), key=key.describe())
        stored = tx.effects.global_value(self.values, name)
        if isinstance(stored, VariableTracker):
            return stored
        source = ModuleGlobalsSource(self.module, name)
        if stored is not None:  # deleted by the trace
            return None
        if name not in self.values:
            tx.guard(NotInGlobals(source))
            return None
        return tx.wrap(self.values[name], source)

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        name = item.constant() if item.is_constant() else None
        if type(name) is str and name in self.values and tx.effects.global_value(self.values, name) is None:
            tx.guard(DictContains(ModuleNamespaceSource(self.module), name, True))
            return boolean(True)
        return super().contains(tx, item)

    def set_item(self, tx: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        if not (key.is_constant() and type(key.constant()) is str):
            unsupported("unsupported-subscript", value=self.describe(), key=key.describe())
        tx.effects.store_global(self.values, key.constant(), value, tx.break_step())

    def _names(self, tx: Tracer) -> tuple[str, ...]:
        if any(values is self.values for values, _, _ in tx.effects.stored_globals()):
            unsupported("unsupported-iteration", value=self.describe())
        tx.guard(DictKeysMatch.of(ModuleNamespaceSource(self.module), self.values))
        return tuple(self.values)

    def _copied(self, tx: Tracer, with_values: bool) -> VariableTracker:
        names = self._names(tx)
        return tx.new_dict({name: self.get_item(tx, ConstantVariable(name)) if with_values else NONE for name in names})

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        return tx.bound_builtin_method(self, name) if name == "__setitem__" else super().get_attr(tx, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name == "__setitem__" and len(args) == 2 and not kwargs:
            self.set_item(tx, *args)
            return NONE
        return super().call_method(tx, name, args, kwargs)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.load_globals(self.values)
