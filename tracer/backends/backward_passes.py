"""Backward passes through a compiled graph that begin at some of its results.

AOTAutograd differentiates a graph as a whole. Its backward gives zeros to inputs that the results at which a pass begins do not
depend on, and an optimizer takes zeros for gradients: it decays the weights. It also frees, after the first pass, what the other
results need for theirs. Here such inputs get no gradient, and what other results may need is kept, as in eager mode.
"""

from __future__ import annotations

import contextlib
import dataclasses
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import fx

from tracer._C import has_gradient_hooks
from tracer.backends.result_dependence import Dependence, requires_grad
from tracer.backends.result_memory import Compiled
from tracer.graph.fakes.fake_tensors import is_leaf

_COMPILED = "CompiledFunctionBackward"  # what autograd calls the node of a graph that AOTAutograd compiled
_autograd = torch._C._autograd


@dataclasses.dataclass(frozen=True)
class _Start:
    """A tensor at which a backward pass may begin: a result of the graph, or an input that it writes to."""

    is_result: bool
    place: int
    inputs: frozenset[int]  # those that it depends on
    part: int  # of the graph: starts of two parts have no operation in common

    def tensor(self, args: tuple[Any, ...], results: Any) -> Any:
        return results[self.place] if self.is_result else args[self.place]


class BackwardPasses:
    """What the backward passes of a graph have to give and to keep. Made of the graph before a compiler changes it."""

    def __init__(self, graph: fx.Graph) -> None:
        self._starts: list[_Start] = []
        self._inputs: frozenset[int] = frozenset()
        returned: Any = graph.output_node().args[0]
        if isinstance(returned, (list, tuple)) and any(map(requires_grad, graph.nodes)):
            self._look_into(graph, returned)

    def _look_into(self, graph: fx.Graph, returned: Any) -> None:
        dependence = Dependence(graph)
        if not dependence.is_known:
            return
        results = [(True, i, node) for i, node in enumerate(returned)]
        written = [(False, i, node) for i, node in enumerate(dependence.inputs) if node in dependence.written]
        parts: dict[Any, int] = {}
        for is_result, place, node in results + written:
            if requires_grad(node):
                part = parts.setdefault(dependence.part_of(node), len(parts))
                self._starts.append(_Start(is_result, place, dependence.inputs_of(node), part))
        self._inputs = dependence.differentiable

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """To be entered around the compile. What is kept for other results must not be written over by a backward pass."""
        donates = torch._functorch.config.donated_buffer and not _are_of_parts(self._starts)
        with torch._functorch.config.patch(donated_buffer=donates):
            yield

    def around(self, compiled: Compiled) -> Compiled:
        """The compiled graph, with backward passes as in eager mode."""
        if all(start.inputs == self._inputs for start in self._starts) and not _are_of_parts(self._starts):
            return compiled
        return _Passes(compiled, self._starts)


def _are_of_parts(starts: list[_Start]) -> bool:
    return len({start.part for start in starts}) > 1


class _Passes:
    """A compiled graph, with what the passes that begin at its results do."""

    def __init__(self, compiled: Compiled, starts: list[_Start]) -> None:
        self.compiled = compiled
        self._starts, self._has_parts = starts, _are_of_parts(starts)
        self._inputs: dict[int, list[int | None]] = {}  # of the i-th node: of each gradient that it gives, the input or None

    def __call__(self, *args: Any) -> Any:
        since = _autograd._get_sequence_nr()
        results = self.compiled(*args)
        tensors = [(start, start.tensor(args, results)) for start in self._starts]
        begun_at: dict[Any, dict[int, list[_Start]]] = {}  # node -> number of an output -> the starts
        for start, tensor in tensors:
            if isinstance(tensor, torch.Tensor) and is_leaf(tensor) is False:
                for node, number in _compiled_nodes(tensor, since):
                    begun_at.setdefault(node, {}).setdefault(number, []).append(start)
        for i, (node, starts) in enumerate(begun_at.items()):
            if i not in self._inputs:
                self._inputs[i] = _inputs_of(node, args)
            node.register_hook(_LeavesOut(node, starts, self._inputs[i]))
            if self._has_parts:
                _Keeps(starts, tensors, args).add_to(node)
        return results


def _compiled_nodes(tensor: torch.Tensor, since: int) -> Iterator[tuple[Any, int]]:
    """The compiled nodes that a backward pass from a tensor comes to first, with the numbers of their outputs. A node that is not
    made `since` then belongs to an input."""
    todo, seen = [(tensor.grad_fn, tensor.output_nr)], set[Any]()
    while todo:
        node, number = edge = todo.pop()
        if node is None or edge in seen or node._sequence_nr() < since:
            continue
        seen.add(edge)
        if node.name() == _COMPILED:
            yield node, number
        else:
            todo += node.next_functions


def _inputs_of(node: Any, args: tuple[Any, ...]) -> list[int | None]:
    """Of each gradient that a node gives, the place of the input that it belongs to; None if none or several have it."""
    places: dict[Any, list[int]] = {}
    for i, arg in enumerate(args):
        if isinstance(arg, torch.Tensor) and arg.requires_grad:
            places.setdefault(arg if arg.is_leaf else (arg.grad_fn, arg.output_nr), []).append(i)
    found = []
    for edge, number in node.next_functions:
        leaf = getattr(edge, "variable", None)
        at = places.get((edge, number) if leaf is None else leaf, ())
        found.append(at[0] if len(at) == 1 else None)
    return found


def _begun_at(starts: dict[int, list[_Start]], gradients: Iterable[Any]) -> list[_Start] | None:
    """Where a pass begins, by the gradients of a node's outputs; None if that is at what is no result of the program as well."""
    numbers = [i for i, gradient in enumerate(gradients) if gradient is not None]
    if any(i not in starts for i in numbers):
        return None
    return [start for i in numbers for start in starts[i]]


class _LeavesOut:
    """A hook behind the backward of a compiled node: leaves out the gradients of inputs that the pass does not reach."""

    def __init__(self, node: Any, starts: dict[int, list[_Start]], inputs: list[int | None]) -> None:
        self._node = weakref.ref(node)
        self._starts, self._inputs = starts, inputs

    def __call__(self, given: tuple[Any, ...], gradients: tuple[Any, ...]) -> tuple[Any, ...] | None:
        starts, node = _begun_at(self._starts, gradients), self._node()
        if starts is None or node is None or len(given) != len(self._inputs):
            return None
        reached = frozenset().union(*(start.inputs for start in starts))
        absent = [i for i, at in enumerate(self._inputs) if at is not None and at not in reached]
        if not absent:
            return None
        found, edges = list(given), node.next_functions
        for i in absent:
            if not has_gradient_hooks(edges[i][0]):  # a hook is called with whatever comes: with zeros better than with None
                found[i] = None
        return tuple(found)


class _Keeps:
    """Keeps what a compiled node has saved, where a pass leaves results of other parts waiting. Autograd would free it."""

    def __init__(self, starts: dict[int, list[_Start]], tensors: list[tuple[_Start, Any]], args: tuple[Any, ...]) -> None:
        self._starts = starts
        self._waiting = [(start.part, weakref.ref(each)) for start, each in tensors if isinstance(each, torch.Tensor)]
        self._done: set[int] = set()  # the parts of which a pass has freed what they need
        self._now_kept = False
        self._kept: list[tuple[torch.Tensor, int | None]] | None = None  # the tensors, and the versions that they must have
        self._users: dict[int, set[int]] = {}  # address of memory -> the parts that need it
        for start, each in tensors:
            for tensor in (each, *(args[i] for i in start.inputs)):
                if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
                    self._users.setdefault(_address(tensor), set()).add(start.part)

    def add_to(self, node: Any) -> None:
        node.keeps = self
        node.register_prehook(self._begin)
        cls = type(node)  # PyTorch makes one for each compiled graph
        if "saved_tensors" not in vars(cls):
            cls.saved_tensors = property(_saved_or_kept)

    def _begin(self, gradients: tuple[Any, ...]) -> None:
        """Called before the backward of the node, with the gradients of its outputs."""
        starts = _begun_at(self._starts, gradients)
        if starts is not None and not _autograd._get_current_graph_task_keep_graph():
            self._done |= {start.part for start in starts}
            self._now_kept = any(part not in self._done and each() is not None for part, each in self._waiting)

    def saved(self, node: Any) -> tuple[torch.Tensor, ...]:
        """What the node has saved. Called once in each pass."""
        if self._kept is None:
            found: tuple[torch.Tensor, ...] = torch._C._FunctionBase.saved_tensors.__get__(node)
            kept = [(each, None if self._is_done(each) else each._version) for each in found]
        elif all(version in (None, each._version) for each, version in self._kept):
            found, kept = tuple([each for each, _ in self._kept]), self._kept
        else:
            raise RuntimeError(_CHANGED_SINCE)
        self._kept = kept if self._now_kept else None
        return found

    def _is_done(self, saved: torch.Tensor) -> bool:
        """Whether only parts that are done need this tensor: it may be written to then, as by an optimizer."""
        users = self._users.get(_address(saved)) if saved.layout == torch.strided else None
        return users is not None and users <= self._done


def _address(tensor: torch.Tensor) -> int:
    address: int = tensor.untyped_storage().data_ptr()
    return address


def _saved_or_kept(node: Any) -> tuple[torch.Tensor, ...]:
    keeps: _Keeps | None = getattr(node, "keeps", None)
    found: tuple[torch.Tensor, ...] = torch._C._FunctionBase.saved_tensors.__get__(node) if keeps is None else keeps.saved(node)
    return found


_CHANGED_SINCE = (
    "one of the variables needed for gradient computation has been modified by an inplace operation, after a backward pass from "
    "another result of the compiled graph. Copy the tensor before it is changed, or change it after the last backward pass."
)
