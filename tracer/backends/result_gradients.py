"""What a compiled graph returns takes part in autograd as it does where the graph runs as written.

AOTAutograd differentiates a graph as a whole. It cannot where the program itself is past that: a loss whose backward pass has
run, or whose parameters an optimizer has changed since. It forgets which results are tensors of inference mode, and which are
views that autograd does not let be written to (one of many of a tensor, or made where gradients were off).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from tracer.backends.inference import laid_over, switch_gradients_instead, switches_inference
from tracer.graph.fakes.fake_tensors import mode_of
from tracer.graph.output_graph import EXAMPLE

_autograd = torch._C._autograd
_PLAIN = _autograd.CreationMeta.DEFAULT
Compiled = Callable[..., Any]
_CHANGED = "has been modified by an inplace operation"
_ITS_OWN = (
    "more than one element of the written-to tensor refers to a single memory location",
    "derivative for aten::",  # "is not implemented"
)
_SPENT = ("backward through the graph a second time", _CHANGED)


def is_about_changes(error: Exception) -> bool:
    """Whether a compiler failed because the program has changed what the gradients of a result need."""
    return isinstance(error, RuntimeError) and _CHANGED in str(error)


def is_the_programs_own(error: Exception) -> bool:
    """Whether what a compiler failed on is the program's: it raises there, too, or when it asks for the gradient."""
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _ITS_OWN)


def as_written(graph: fx.Graph, look_closely: bool) -> Callable[[Compiled], Compiled]:
    """Prepares a graph for compilers; the result corrects what comes of its compiled form. `look_closely`: ask of every result
    whether it can be differentiated, which takes long; otherwise only where a backward pass is part of the graph."""
    returned: Any = graph.output_node().args[0]
    results = list(returned) if isinstance(returned, (list, tuple)) else []  # a graph of the tracer returns several
    look_closely = look_closely or any(node.target is torch.autograd.grad for node in graph.nodes)
    spent = _spent(graph, results) if look_closely else {}
    kinds = _kinds(graph, results)
    switch_gradients_instead(graph)
    if not spent and not kinds:
        return lambda compiled: compiled
    with graph.inserting_before(graph.output_node()):
        for index in spent:
            node = results[index] = graph.call_method("detach", (results[index],))
            example = node.args[0].meta[EXAMPLE]
            with mode_of(example):
                node.meta[EXAMPLE] = example.detach()
    graph.output_node().args = (tuple(results),)

    def around(compiled: Compiled) -> Compiled:
        def run(*args: Any) -> Any:
            results = list(compiled(*args))
            for index, message in spent.items():
                results[index] = _refusing(results[index], message)
            made: dict[int, torch.Tensor] = {}  # results that are one tensor stay one
            for index, kind in kinds.items():
                result = results[index]
                results[index] = made[id(result)] if id(result) in made else made.setdefault(id(result), kind.of(result))
            return results

        return run

    return around


@dataclasses.dataclass(frozen=True)
class _Kind:
    """What the program makes of a result, besides its elements."""

    view: Any  # None, or how a view was made that autograd minds being written to
    inference: bool | None  # whether it is a tensor of inference mode; None where the graph does not switch that

    def of(self, result: torch.Tensor) -> torch.Tensor:
        if self.inference is not None and result.is_inference() is not self.inference and not result.requires_grad:
            return laid_over(result, self.inference)
        if self.view is None or result.is_inference():
            return result
        if not result._is_view():
            result = result.view_as(result)
        if result._is_view() and _autograd._get_creation_meta(result) == _PLAIN:
            _autograd._set_creation_meta(result, self.view)
        return result


def _kinds(graph: fx.Graph, results: list[Any]) -> dict[int, _Kind]:
    """What is to be restored of results, by their places."""
    switches = switches_inference(graph)
    found: dict[int, _Kind] = {}
    for index, node in enumerate(results):
        example = node.meta.get(EXAMPLE) if isinstance(node, fx.Node) and node.op != "placeholder" else None
        if not isinstance(example, torch.Tensor) or example.layout != torch.strided:
            continue
        view = _autograd._get_creation_meta(example) if example._is_view() and not example.is_inference() else _PLAIN
        kind = _Kind(None if view == _PLAIN else view, example.is_inference() if switches else None)
        if kind != _Kind(None, None):
            found[index] = kind
    return found


def _spent(graph: fx.Graph, results: list[Any]) -> dict[int, str]:
    """The results that require gradients, but that autograd can go back from no more: with its words for it."""
    inputs = [node.meta[EXAMPLE] for node in graph.nodes if node.op == "placeholder" and _requires_grad(node)]
    found: dict[int, str] = {}
    for index, node in enumerate(results):
        if inputs and _requires_grad(node) and node.op != "placeholder":
            message = _why_not(node.meta[EXAMPLE], inputs)
            if message is not None:
                found[index] = message
    return found


def _why_not(result: Any, inputs: list[Any]) -> str | None:
    with mode_of(result):
        try:
            torch.autograd.grad(result, inputs, torch.empty_like(result), retain_graph=True, allow_unused=True)
        except RuntimeError as error:
            return str(error) if any(words in str(error) for words in _SPENT) else None
    return None


def _requires_grad(node: Any) -> bool:
    example = node.meta.get(EXAMPLE) if isinstance(node, fx.Node) else None
    return isinstance(example, torch.Tensor) and example.requires_grad


def _refusing(result: torch.Tensor, message: str) -> torch.Tensor:
    """A tensor that requires a gradient, whose backward pass raises."""
    error = torch._C._functions.DelayedError(message.encode(), 1)
    return error(result.detach().requires_grad_())
