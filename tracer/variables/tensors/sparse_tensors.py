"""Sparse tensors of the program, as operands: products with dense ones, transposes, and the dense form. Nothing that depends on
how many elements are stored is known while tracing, so all else breaks the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.graph_breaks import unsupported
from tracer.variables.tensors.tensor import METADATA, TensorVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.protocol.variable import VariableTracker

_ATTRIBUTES = METADATA | {"shape"}
_METHODS = frozenset(
    "size dim numel is_floating_point is_complex element_size t transpose to_dense coalesce detach mm mv matmul".split()
)


class SparseVariable(TensorVariable):
    """A sparse matrix that existed before the frame ran, or that is made of one. Its fake knows no elements."""

    def describe(self) -> str:
        return f"SparseVariable({self.node.name})"

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name not in _ATTRIBUTES and name not in _METHODS:
            unsupported("unsupported-attribute", value="a sparse tensor", name=name)
        return super().get_attr(tx, name)

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name not in _METHODS:
            unsupported("unsupported-method", value="a sparse tensor", name=name)
        return super().call_method(tx, name, args, kwargs)
