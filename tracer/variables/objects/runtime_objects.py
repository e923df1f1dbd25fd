"""Objects that a graph hands on and nothing looks into: streams, events, and what calls with an effect return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.lookups import lookup
from tracer.protocol.models import model_of
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import GenericAttrSource
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.values.constant import NamedMethodVariable

if TYPE_CHECKING:
    from torch import fx

    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.sources.base import Source

_FIXED = ("device", "device_index", "device_type")  # attributes of streams that never change


class RuntimeObjectVariable(VariableTracker):
    """An object that a node gives. Its type is known, and nothing else: another one may come at each call. What is asked of it
    breaks the graph, but for methods that have a model."""

    def __init__(self, cls: type, node: fx.Node, value: Any = None, source: Source | None = None, is_new: bool = True) -> None:
        """`value`: in this call, if it existed before the frame ran. `is_new`: no other variable can be the same object."""
        self.cls = cls
        self.node = node
        self.value = value
        self.source = source
        self.is_new = is_new

    def describe(self) -> str:
        where = "the graph" if self.source is None else self.source.name
        return f"RuntimeObjectVariable({self.cls.__qualname__}, {where})"

    def graph_arg(self) -> Any:
        return self.node

    def identity(self) -> Any:
        if not self.is_new:
            unsupported("identity-of-a-value", left=self.describe(), right="another object")
        return self

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        return None if other is self or other.is_none() else super().get_attr(tx, op)  # breaks the graph

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in _FIXED and self.source is not None:
            return tx.wrap(getattr(self.value, name), GenericAttrSource(self.source, name))
        static = lookup(self.cls, name)[1]
        return super().get_attr(tx, name) if model_of(static) is None else NamedMethodVariable(self, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        static = lookup(self.cls, name)[1]
        return CallableVariable(static).call(tx, [self, *args], kwargs)

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.load_graph_output(self)
