"""What the results of a graph are computed from, as far as gradients are concerned: which inputs a gradient may reach from a
result, and which results have operations in common."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from tracer.backends.view_strides import all_tensors_of
from tracer.graph.fakes.fake_tensors import storage_of
from tracer.graph.fakes.wrapper_fakes import WrapperFake
from tracer.graph.own_leaves import with_grad_mode
from tracer.operators.facts import writes


class Dependence:
    """Of each node of a graph: the inputs that require a gradient and that it may depend on, and the part of the graph that it
    belongs to. Nodes of two parts have no operation in common that autograd records. Where memory is written to, all that lies in
    it may depend on what is written. `is_known`: all memory that is written to tells which tensors lie in it. `written`: the
    inputs to which is written while gradients are recorded."""

    def __init__(self, graph: fx.Graph) -> None:
        self.inputs = [node for node in graph.nodes if node.op == "placeholder"]
        self.differentiable = frozenset(i for i, node in enumerate(self.inputs) if requires_grad(node))
        self._of = {node: frozenset((i,)) & self.differentiable for i, node in enumerate(self.inputs)}
        self._in_memory: dict[Any, frozenset[int]] = {}
        self._parts = _Parts()
        hides_memory = is_written = False
        for node, enabled in with_grad_mode(graph):
            hides_memory = hides_memory or not all(map(_tells_memory, all_tensors_of(node)))
            if node.op not in ("placeholder", "output"):
                written = _written(node) if enabled else []
                is_written = is_written or bool(written)
                self._note(node, written)
        self.is_known = not (is_written and hides_memory)
        self.written = [each for each in self.inputs if any(storage in self._in_memory for storage in _memory(each))]

    def inputs_of(self, node: fx.Node) -> frozenset[int]:
        """The places of the inputs."""
        return self._of[node].union(*(self._in_memory.get(each, ()) for each in _memory(node)))

    def part_of(self, node: fx.Node) -> Any:
        """Something that the nodes of a part have in common; equal for these alone."""
        return self._parts.of(node)

    def _note(self, node: fx.Node, written: list[fx.Node]) -> None:
        """Notes an operation, and the operands that it may write to while gradients are recorded."""
        found = frozenset().union(*map(self.inputs_of, node.all_input_nodes))
        recorded = requires_grad(node)
        self._of[node] = found if recorded or next(all_tensors_of(node), None) is None else frozenset()
        for storage in itertools.chain.from_iterable(map(_memory, written)):
            self._in_memory[storage] = self._in_memory.get(storage, frozenset()) | found
        if recorded or written:
            self._join(node, written)

    def _join(self, node: fx.Node, written: list[fx.Node]) -> None:
        for each in node.all_input_nodes:
            if each.op != "placeholder" and requires_grad(each):
                self._parts.join(node, each)
        for storage in itertools.chain.from_iterable(map(_memory, [node, *node.all_input_nodes])):
            if storage in self._in_memory:
                self._parts.join(node, storage)
        for each in written:
            self._parts.join(node, each)


class _Parts:
    """Sets of objects that are joined two by two."""

    def __init__(self) -> None:
        self._parents: dict[Any, Any] = {}

    def join(self, one: Any, other: Any) -> None:
        self._parents[self.of(one)] = self.of(other)

    def of(self, each: Any) -> Any:
        while (parent := self._parents.get(each, each)) != each:
            self._parents[each] = self._parents.get(parent, parent)
            each = parent
        return each


def requires_grad(node: Any) -> bool:
    """Whether a tensor among the values of a node requires a gradient; False for a constant."""
    return any(tensor.requires_grad for tensor in all_tensors_of(node))


def _memory(node: fx.Node) -> Iterator[Any]:
    return (storage_of(tensor) for tensor in all_tensors_of(node) if _tells_memory(tensor))


def _tells_memory(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and not isinstance(tensor, WrapperFake)


def _written(node: fx.Node) -> list[fx.Node]:
    """The operands that an operation may write to."""
    operands: list[fx.Node] = node.all_input_nodes
    module = "torch" if isinstance(node.target, str) else getattr(node.target, "__module__", None) or "torch"
    if not module.startswith(("torch", "_operator")):
        return operands
    if not writes(node.target, node.kwargs):
        return []
    written = [each for each in (*node.args[:1], node.kwargs.get("out")) if isinstance(each, fx.Node)]
    by_schema = isinstance(node.target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket))  # that may name any argument
    return written if written and not by_schema else operands
