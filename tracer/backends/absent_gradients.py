"""Gradients that do not exist: where a backward pass begins at some results of a compiled graph, inputs of which these do not
depend get none, as in eager mode. AOTAutograd's backward gives zeros for them, which an optimizer takes for gradients: it decays
the weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import fx

from tracer.backends.result_memory import Compiled, unchanged
from tracer.backends.view_strides import all_tensors_of
from tracer.graph.fakes.fake_tensors import storage_of
from tracer.graph.fakes.wrapper_fakes import WrapperFake
from tracer.operators.facts import writes

_COMPILED = "CompiledFunctionBackward"  # what autograd calls the node of a graph that AOTAutograd compiled


def leave_out_absent(graph: fx.Graph) -> Callable[[Compiled], Compiled]:
    """Returns a function that wraps the compiled graph: a backward pass gives no gradient to an input of which none of the
    results that it begins at depends."""
    returned: Any = graph.output_node().args[0]
    if not isinstance(returned, (list, tuple)):
        return unchanged
    begins = {i: node for i, node in enumerate(returned) if isinstance(node, fx.Node) and _requires_grad(node)}
    if len(begins) < 2:
        return unchanged
    reached = _Reached(graph)
    if reached.writes and reached.hides_memory:
        return unchanged
    depends = {i: reached.of(node) for i, node in begins.items()}
    everything = frozenset().union(*depends.values())
    if all(each == everything for each in depends.values()):
        return unchanged
    return lambda compiled: _WithoutAbsent(compiled, depends)


class _WithoutAbsent:
    """A compiled graph, with the inputs that each of its results depends on."""

    def __init__(self, compiled: Compiled, depends: dict[int, frozenset[int]]) -> None:
        self.compiled = compiled
        self._depends = depends
        self._inputs: tuple[int | None, ...] | None = None  # of each gradient that the backward gives: the input, or None

    def __call__(self, *args: Any) -> Any:
        results = self.compiled(*args)
        places = {i: results[i] for i in self._depends if isinstance(results[i], torch.Tensor)}
        node = next((each.grad_fn for each in places.values() if _is_compiled(each.grad_fn)), None)
        if node is None:
            return results
        if self._inputs is None or len(self._inputs) != len(node.next_functions):
            self._inputs = tuple(_input_of(edge, args) for edge in node.next_functions)
        depends: dict[int, frozenset[int]] = {}  # of each output of the node
        for i, each in places.items():
            if each.grad_fn is node:
                depends[each.output_nr] = depends.get(each.output_nr, frozenset()) | self._depends[i]
        node.register_hook(_Hook(self._inputs, depends))
        return results


class _Hook:
    """Called behind the backward of a graph, once for each pass."""

    def __init__(self, inputs: tuple[int | None, ...], depends: dict[int, frozenset[int]]) -> None:
        self._inputs, self._depends = inputs, depends

    def __call__(self, given: tuple[Any, ...], begun_at: tuple[Any, ...]) -> tuple[Any, ...] | None:
        begun = [i for i, gradient in enumerate(begun_at) if gradient is not None]
        if any(i not in self._depends for i in begun) or len(given) != len(self._inputs):
            return None  # it begins at what is no result of the program as well
        reached = frozenset().union(*(self._depends[i] for i in begun))
        return tuple(None if at is not None and at not in reached else each for each, at in zip(given, self._inputs))


def _is_compiled(node: Any) -> bool:
    return node is not None and node.name() == _COMPILED


def _input_of(edge: tuple[Any, int], args: tuple[Any, ...]) -> int | None:
    """The place of the input that a gradient belongs to; None if there is none, or there are several."""
    node, number = edge
    if node is None:
        return None
    leaf = getattr(node, "variable", None)
    found = [i for i, arg in enumerate(args) if isinstance(arg, torch.Tensor) and _is_at(arg, leaf, node, number)]
    return found[0] if len(found) == 1 else None


def _is_at(tensor: torch.Tensor, leaf: Any, node: Any, number: int) -> bool:
    return tensor is leaf if leaf is not None else tensor.grad_fn is node and tensor.output_nr == number


class _Reached:
    """Which inputs of a graph that require a gradient each node may depend on. Where memory is written to, all that lies in it
    may depend on what is written."""

    def __init__(self, graph: fx.Graph) -> None:
        self._of: dict[fx.Node, frozenset[int]] = {}
        self._in_memory: dict[Any, frozenset[int]] = {}
        self._enabled = torch.is_grad_enabled()
        self.writes = False
        self.hides_memory = False  # whether tensors are in it that do not tell which others share their memory
        inputs = 0
        for node in graph.nodes:
            self.hides_memory = self.hides_memory or not all(map(_tells_memory, all_tensors_of(node)))
            if node.op == "placeholder":
                self._of[node] = frozenset((inputs,)) if _requires_grad(node) else frozenset()
                inputs += 1
            elif node.op != "output":
                self._note(node)

    def of(self, node: fx.Node) -> frozenset[int]:
        return self._of[node].union(*(self._in_memory.get(each, ()) for each in _memory(node)))

    def _note(self, node: fx.Node) -> None:
        if node.target is torch._C._set_grad_enabled:
            self._enabled = bool(node.args[0])
        found = frozenset().union(*map(self.of, node.all_input_nodes))
        self._of[node] = found if _requires_grad(node) or next(all_tensors_of(node), None) is None else frozenset()
        for each in _written(node) if self._enabled else ():
            self.writes = True
            for storage in _memory(each):
                self._in_memory[storage] = self._in_memory.get(storage, frozenset()) | found


def _requires_grad(node: fx.Node) -> bool:
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
