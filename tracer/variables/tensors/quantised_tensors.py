"""Quantised tensors. No fake is one: the graph hands them on, and knows their numbers as integers (`int_repr`) or floats
(`dequantize`). What else is asked of one breaks the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tracer.graph.operations.streams import RuntimeObject
from tracer.graph_breaks import unsupported
from tracer.operators.kept_from_compilers import keep_from_compilers
from tracer.protocol.variable import VariableTracker
from tracer.variables.objects.runtime_objects import RuntimeObjectVariable
from tracer.variables.tensors.tensor import METADATA, TensorVariable

if TYPE_CHECKING:
    from torch import fx

    from tracer.protocol.tracer import Tracer
    from tracer.sources.base import Source

INTEGERS = {torch.quint8: torch.uint8, torch.qint8: torch.int8, torch.qint32: torch.int32}
_OF_SIZES = frozenset("size dim numel stride ndim shape is_contiguous storage_offset".split())
_NUMBERS = {"dequantize": torch.dequantize, "int_repr": torch.int_repr}
_QUANTISED = frozenset(("clone", "detach", "relu"))  # methods that give one with the same scale
_FIXED: dict[str, Any] = {"is_quantized": True, "requires_grad": False, "is_leaf": True, "grad": None}


def call_on_quantised(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """The operation of the graph for `tensor.name()`, which gives a quantised tensor."""
    made: torch.Tensor = getattr(tensor, name)()
    return made


keep_from_compilers(*_NUMBERS.values(), call_on_quantised)


class QuantisedVariable(RuntimeObjectVariable):
    """A quantised tensor without gaps. `fake`: a fake of floats with its sizes; `known`: what `q_scale()` and the like give, if
    a trace knows that."""

    def __init__(
        self,
        node: fx.Node,
        fake: torch.Tensor,
        dtype: torch.dtype,
        known: dict[str, VariableTracker],
        source: Source | None = None,
    ) -> None:
        super().__init__(torch.Tensor, node, source=source)
        self.fake = fake
        self.dtype = dtype
        self.known = known

    def describe(self) -> str:
        return f"QuantisedVariable({self.node.name})"

    def graph_arg(self) -> Any:
        unsupported("unsupported-tensor", value=f"{self.describe()}, an operand,")

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        unsupported("unsupported-operator", left=self.describe(), op=op, right=other.describe())

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in _FIXED or name == "dtype":
            return tx.literal(_FIXED.get(name, self.dtype))
        if name in _NUMBERS or name in _QUANTISED or name in self.known:
            return tx.bound_builtin_method(self, name)
        if name in METADATA or name in _OF_SIZES:
            return self._numbers(tx, "dequantize").get_attr(tx, name)
        unsupported("unsupported-attribute", value=self.describe(), name=name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name in _OF_SIZES:
            return self._numbers(tx, "dequantize").call_method(tx, name, args, kwargs)
        if args or kwargs:
            unsupported("unsupported-method", value=self.describe(), name=name)
        if name in self.known:
            return self.known[name]
        if name in _QUANTISED:
            return QuantisedVariable(make_node(tx, call_on_quantised, (self.node, name)), self.fake, self.dtype, self.known)
        if name in _NUMBERS:
            return self._numbers(tx, name)
        unsupported("unsupported-method", value=self.describe(), name=name)

    def _numbers(self, tx: Tracer, name: str) -> TensorVariable:
        dtype = torch.float32 if name == "dequantize" else INTEGERS[self.dtype]
        example = tx.output.run_fake(torch.empty_like, (self.fake,), {"dtype": dtype}, _NUMBERS[name])
        made = tx.output.wrap(tx.output.create_node("call_function", _NUMBERS[name], (self.node,), {}, example), example)
        assert isinstance(made, TensorVariable)
        return made


def make_node(tx: Tracer, target: Any, args: tuple[Any, ...]) -> fx.Node:
    """A node that gives a quantised tensor."""
    inside = tx.effects.observer is not None or torch._C._are_functorch_transforms_active()  # a graph in the graph
    if inside or not tx.output.chances.take():
        unsupported("unsupported-tensor", value=f"a result of {target.__name__}")
    tx.output.journal.refuse("it makes quantised tensors")
    return tx.output.create_node("call_function", target, args, {}, RuntimeObject(torch.Tensor))
