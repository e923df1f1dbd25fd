"""Nested tensors with the jagged layout. They keep their class in the graph, and an operation on one is one node."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from tracer import _C
from tracer.graph.fakes.nested_fakes import NestedTensor
from tracer.graph.symbols.ragged import ragged_of
from tracer.graph_breaks import unsupported
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.slots import COMPARE
from tracer.variables.tensors.subscripts import subscript
from tracer.variables.tensors.tensor import TensorMethodVariable, TensorVariable
from tracer.variables.tensors.tensor_methods import tensor_method
from tracer.variables.values.constant import NONE, ConstantVariable, boolean, plain_value
from tracer.variables.values.symbolic import example_number, is_number

if TYPE_CHECKING:
    from torch import fx

    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.sources.base import Source

# Methods with a model that holds for nested tensors as well. Others that have a model break the graph.
_METHODS = frozenset(
    "size stride dim ndimension is_contiguous is_floating_point is_complex is_signed element_size get_device is_neg is_conj "
    "is_inference is_same_size narrow select backward detach_ requires_grad_ register_hook retain_grad "
    "__len__ __getitem__ __iter__".split()
)
_TENSORS = frozenset("_values _offsets _lengths _min_seqlen_tensor _max_seqlen_tensor".split())
_NUMBERS = frozenset("_max_seqlen _min_seqlen _maybe_max_seqlen _maybe_min_seqlen".split())
_COMPARE: dict[str, Callable[[Any, Any], Any]] = COMPARE
_PARTS = {"offsets": "_offsets", "lengths": "_lengths"}


class NestedTensorVariable(TensorVariable):
    """A nested tensor; its fake is one around fakes, see `graph.fakes.nested_fakes`."""

    fake: Any

    def __init__(self, node: fx.Node, fake: Any, source: Source | None = None) -> None:
        super().__init__(node, fake, source, NestedTensor)

    def describe(self) -> str:
        return f"NestedTensorVariable({self.node.name})"

    # -- sizes ---------------------------------------------------------------------------------------------------

    def dimension(self, tx: Tracer, dim: int) -> VariableTracker:
        return self._number(tx, "size", dim, self.fake._size[dim])

    def strides(self, tx: Tracer) -> list[VariableTracker]:
        self.asks_layout(tx)
        return [self._number(tx, "stride", dim, stride) for dim, stride in enumerate(self.fake._strides)]

    def _number(self, tx: Tracer, method: str, dim: int, example: Any) -> VariableTracker:
        if type(example) is int:
            return ConstantVariable(example)
        if ragged_of(example) is None:
            return tx.output.measure(self.node, method, dim, example)
        node = tx.output.create_node("call_method", method, (self.node, dim), {}, example, pure=True)
        return RaggedSizeVariable(node, example, (self, method, dim))

    # -- attributes ----------------------------------------------------------------------------------------------

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in _TENSORS:
            return self._part(tx, name)
        if name in _NUMBERS:
            return tx.output.call_function(getattr, (self.node, name), {})
        if name == "_ragged_idx":
            return ConstantVariable(self.fake._ragged_idx)
        if name == "_size":
            return TupleVariable(self.size(tx).items(tx))
        if name == "_strides":
            return TupleVariable(self.strides(tx))
        if name in vars(NestedTensor) and callable(vars(NestedTensor)[name]):
            return TensorMethodVariable(self, name)
        if name in vars(NestedTensor) or name in self.fake.__dict__:
            unsupported("unsupported-attribute", value=self.describe(), name=name)
        return super().get_attr(tx, name)

    def _part(self, tx: Tracer, name: str) -> VariableTracker:
        """A tensor that it is made of, or None."""
        part = getattr(self.fake, name)
        if part is None:
            return NONE
        memory, known = tx.output.memory, tx.output.tracked(part)
        if name == "_values" and memory is not None and isinstance(known, TensorVariable):
            memory.add_nested(known.node)
        node = tx.output.create_node("call_function", getattr, (self.node, name), {}, part, pure=True)
        return tx.output.wrap(node, part)

    def set_attr(self, tx: Tracer, name: str, value: VariableTracker) -> None:
        if name == "data" or name in vars(NestedTensor) or name in self.fake.__dict__:
            unsupported("unsupported-attribute-store", value=self.describe(), name=name)
        super().set_attr(tx, name, value)

    # -- operators and methods -----------------------------------------------------------------------------------

    def get_item(self, tx: Tracer, key: VariableTracker) -> VariableTracker:
        return tx.output.call_function(operator.getitem, (self.node, subscript(tx, key)), {})

    def set_item(self, tx: Tracer, key: VariableTracker, value: VariableTracker) -> None:
        unsupported("unsupported-method", value=self.describe(), name="__setitem__")

    def call_method(
        self, tx: Tracer, name: str, args: list[VariableTracker], kwargs: dict[str, VariableTracker]
    ) -> VariableTracker:
        if name in _PARTS and not args and not kwargs:
            return self._part(tx, _PARTS[name])
        if tensor_method(name) is not None and name not in _METHODS and name not in ("numel", "nelement"):
            unsupported("unsupported-method", value=self.describe(), name=name)
        if name in ("numel", "nelement") or name in vars(NestedTensor) and not name.startswith("__"):
            graph_args = tuple([tx.as_graph_arg(arg) for arg in args])
            return tx.output.call_method(name, (self.node, *graph_args), {key: tx.as_graph_arg(v) for key, v in kwargs.items()})
        return super().call_method(tx, name, args, kwargs)


class RaggedSizeVariable(VariableTracker):
    """The size of a ragged dim (a nested int), or a multiple of it. It has no value, and no arithmetic but multiplication."""

    def __init__(self, node: fx.Node, example: torch.SymInt, of: tuple[NestedTensorVariable, str, int] | None = None) -> None:
        """`of`: the tensor that has this size, the method that gives it, and the dim."""
        self.node = node
        self.example = example
        self.of = of

    def graph_arg(self) -> Any:
        return self.node

    def reconstruct(self, cg: ValueCodegen) -> None:
        """Where it is known of which tensor it is the size, that one leaves the graph: no compiler lets a ragged size leave."""
        if self.of is None:
            cg.load_graph_output(self)
            return
        tensor, method, dim = self.of
        cg.call_object(_READS[method, dim], lambda: cg.load(tensor))

    def describe(self) -> str:
        return f"RaggedSizeVariable({self.example})"

    def python_type(self) -> type:
        kind: type = torch.SymInt
        return kind

    def binary(self, tx: Tracer, op: str, other: VariableTracker, reflected: bool) -> VariableTracker | None:
        other = plain_value(other)
        if op != "*" or not _is_size(other):
            unsupported("unsupported-operator", op=op, left=self.describe(), right=other.describe())
        pair = (other, self) if reflected else (self, other)
        return self._apply(tx, operator.mul, pair)

    def compare(self, tx: Tracer, op: str, other: VariableTracker) -> VariableTracker | None:
        other = plain_value(other)
        if not _is_size(other):
            return boolean(op == "!=") if op in ("==", "!=") else None
        return self._apply(tx, _COMPARE[op], (self, other))

    def _apply(
        self, tx: Tracer, function: Callable[[Any, Any], Any], pair: tuple[VariableTracker, VariableTracker]
    ) -> VariableTracker:
        """`function` of two sizes. If one of them is needed in the graph, the graph computes it from the sizes."""
        try:
            result = function(*map(_example, pair))
        except ValueError as error:
            unsupported("symbolic-arithmetic", error=f"{type(error).__name__}: {error}")
        if type(result) is bool:
            return boolean(result)
        args = tuple([number.graph_arg() for number in pair])
        node = tx.output.create_node("call_function", function, args, {}, result, pure=True)
        return tx.output.wrap(node, result)

    def truth(self, tx: Tracer) -> bool:
        return True  # a size that is at least 2


class _Reads(dict[tuple[str, int], Callable[[torch.Tensor], Any]]):
    """What reads a size or stride off a tensor, by the name of the method and the dim."""

    def __missing__(self, key: tuple[str, int]) -> Callable[[torch.Tensor], Any]:
        method, dim = key

        def read(tensor: torch.Tensor) -> Any:
            return getattr(tensor, method)(dim)

        _C.never_trace(read.__code__)
        self[key] = read
        return read


_READS = _Reads()


def _is_size(value: VariableTracker) -> bool:
    return isinstance(value, RaggedSizeVariable) or is_number(value)


def _example(size: VariableTracker) -> Any:
    return size.example if isinstance(size, RaggedSizeVariable) else example_number(size)
