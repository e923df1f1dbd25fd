"""The names that a class or a module holds, as a mapping that a program reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.graph_breaks import unsupported
from tracer.protocol.variable import VariableTracker
from tracer.variables.values.constant import NONE, ConstantVariable, boolean

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_WHOLE = ("keys", "values", "items", "copy")  # methods that go through all names


class NamespaceVariable(VariableTracker):
    """A lookup of one name is guarded by itself; what goes through the names guards all of them."""

    def find(self, tx: Tracer, key: VariableTracker) -> VariableTracker | None:
        """The value of a name, guarded, or None."""
        raise NotImplementedError

    def _names(self, tx: Tracer) -> tuple[str, ...]:
        """All names, guarded."""
        raise NotImplementedError

    def _copied(self, tx: Tracer, with_values: bool) -> VariableTracker:
        """A dict of all names, with their values or None."""
        raise NotImplementedError

    def truth(self, tx: Tracer) -> bool:
        return True

    def contains(self, tx: Tracer, item: VariableTracker) -> VariableTracker:
        return boolean(self.find(tx, item) is not None)

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        return self.find(tx, key) or tx.raise_error(KeyError, key.constant())

    def length(self, tx: Tracer) -> VariableTracker:
        return ConstantVariable(len(self._names(tx)))

    def iterate(self, tx: Tracer) -> VariableTracker:
        return self._copied(tx, with_values=False).iterate(tx)

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in ("get", "__contains__", "__getitem__", *_WHOLE):
            return tx.bound_builtin_method(self, name)
        return super().get_attr(tx, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name == "get" and len(args) in (1, 2) and not kwargs:
            return self.find(tx, args[0]) or (*args, NONE)[1]
        if name == "__contains__" and len(args) == 1:
            return self.contains(tx, *args)
        if name == "__getitem__" and len(args) == 1:
            return self.get_item(tx, *args)
        if name in _WHOLE and not args and not kwargs:
            return self._copied(tx, name != "keys").call_method(tx, name, [], {})
        unsupported("unsupported-method", value=self.describe(), name=name)
