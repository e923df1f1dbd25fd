"""Leaves that require gradients and that the graph makes itself. A backend that differentiates the graph with respect to its
inputs would lose their gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.autograd import grad_mode

from tracer.graph.fakes.exchanged_data import exchanged_at
from tracer.graph.fakes.fake_tensors import is_leaf

if TYPE_CHECKING:
    from tracer.graph.output_graph import GraphInput

_SWITCHES = (torch._C._set_grad_enabled, grad_mode._enter_inference_mode, grad_mode._exit_inference_mode)


def changes_grad_mode(graph: fx.Graph) -> bool:
    """Whether some operations of a graph may record gradients and others not."""
    return any(node.target in _SWITCHES for node in graph.nodes)


def with_grad_mode(graph: fx.Graph) -> Iterator[tuple[fx.Node, bool]]:
    """Each node of a graph, with whether gradients are on where it runs. The graph is to run in the grad mode of now."""
    enabled = torch.is_grad_enabled()
    for node in graph.nodes:
        if node.target is torch._C._set_grad_enabled:
            enabled = bool(node.args[0])
        yield node, enabled


def is_own_leaf(example: Any) -> bool:
    """Whether the result of an operation is a leaf that requires a gradient."""
    return isinstance(example, torch.Tensor) and example.requires_grad and bool(is_leaf(example))


class OwnLeaves:
    """Those of one graph, each with the step of the trace that made it: there the graph breaks if need be."""

    def __init__(self) -> None:
        self._leaves: list[tuple[torch.Tensor, int | None]] = []

    def __len__(self) -> int:
        return len(self._leaves)

    def note(self, leaf: torch.Tensor, step: int | None) -> None:
        self._leaves.append((leaf, step))

    def forget(self, kept: int) -> None:
        """Drops all but the first ones."""
        del self._leaves[kept:]

    def step_of_exposed(self, graph: fx.Graph, results: list[Any], inputs: list[GraphInput], runs_as_written: bool) -> int | None:
        """The step that made a leaf that the results expose; None if there is none. Either a view of the leaf is returned, which
        must be a view of the real leaf, or the backend differentiates the graph with respect to its inputs only and would lose
        the leaf's gradient: the leaf is returned itself, or no input requires a gradient."""
        differentiable = [fake for fake in results if isinstance(fake, torch.Tensor) and fake.requires_grad]
        shown = next((step for step in map(exchanged_at, differentiable) if step is not None), None)
        if shown is not None or not differentiable or runs_as_written or not self._leaves:
            return shown
        of_inputs = [item.fake for item in inputs if isinstance(item.fake, torch.Tensor) and item.fake.requires_grad]
        leaves = self._leaves
        if _has_gradients_off(graph):
            # A view that is made without gradients is a leaf, too. What is returned as a view of an input is made anew from
            # that input where the graph is called, where gradients are off as well.
            bases = {id(each) for fake in of_inputs for each in (fake, fake._base)}
            leaves = [(leaf, step) for leaf, step in leaves if not (leaf._is_view() and id(leaf._base) in bases)]
        returned = set(map(id, differentiable))
        return next((step for leaf, step in leaves if not of_inputs or id(leaf) in returned), None)

    def clear(self) -> None:
        self._leaves.clear()


def _has_gradients_off(graph: fx.Graph) -> bool:
    """Whether no gradients are recorded in the whole graph, which has just been traced to its end."""
    return not torch.is_grad_enabled() and not changes_grad_mode(graph)
