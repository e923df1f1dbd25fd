"""The `ctx` of an `autograd.Function` that is traced through."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import lookup
from tracer.protocol.variable import VariableTracker
from tracer.sources.reading import is_a
from tracer.variables.functions.callables import BoundMethodVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen


class FunctionContextVariable(VariableTracker):
    """The context object. Values that C keeps in its own slots (`to_save`, `dirty_tensors`, ...) are plain attributes here."""

    def __init__(self, cls: type, attributes: dict[str, VariableTracker]) -> None:
        self.cls = cls
        self.attributes = attributes
        self.in_jvp = False  # while jvp is traced, which sees the tensors of `save_for_forward`

    def children(self) -> Iterable[VariableTracker]:
        return self.attributes.values()

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name == "saved_tensors":
            name = "saved_for_forward" if self.in_jvp and "saved_for_forward" in self.attributes else "to_save"
        value = self.attributes.get(name)
        if value is not None:
            return value
        owner, static = lookup(self.cls, name)
        if is_a(static, types.FunctionType):
            return BoundMethodVariable(tx.class_attr(owner, name, None), self)
        unsupported("unsupported-attribute", value=self.describe(), name=name)

    def set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        tx.effects.mutate(self)
        self.attributes[name] = value

    def del_attr(self, tx: Tracer, name: str) -> None:
        if name not in self.attributes:
            unsupported("unsupported-attribute", value=self.describe(), name=name)
        if not self.in_jvp:  # which runs only once, and `library.torch_.jvp_of_functions` looks at what it changes
            tx.effects.mutate(self)
        del self.attributes[name]


class FunctionInstanceVariable(VariableTracker):
    """An instance of an `autograd.Function`, which old programs make in order to call `apply` of it, a method of the class."""

    source = None

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def python_type(self) -> type:
        return self.cls

    def describe(self) -> str:
        return f"FunctionInstanceVariable({self.cls.__qualname__})"

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name == "__class__":
            return tx.class_variable(self.cls)
        if name != "apply":
            unsupported("unsupported-attribute", value=self.describe(), name=name)
        return tx.class_variable(self.cls).get_attr(tx, name)

    def reconstruct(self, cg: ValueCodegen) -> None:
        unsupported("cannot-reconstruct", value=self.describe())
