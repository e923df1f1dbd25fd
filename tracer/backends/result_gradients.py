"""Gives the results of a compiled graph the autograd state that they have when the graph runs as written.

AOTAutograd differentiates a graph as a whole. It fails on a result that cannot be differentiated any more: a loss whose
backward pass has run in the graph, or whose parameters an optimizer has changed since. It also loses which results are
inference tensors, and which are views that autograd forbids to write to (one of several outputs of an operator, or made while
gradients were off).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from tracer.backends.inference import alias_in_mode, enters_inference_mode, replace_inference_mode
from tracer.graph.fakes.fake_tensors import mode_of
from tracer.graph.fakes.wrapper_fakes import WrapperFake
from tracer.graph.output_graph import EXAMPLE

_autograd = torch._C._autograd
_PLAIN = _autograd.CreationMeta.DEFAULT
Compiled = Callable[..., Any]
_CHANGED = "has been modified by an inplace operation"
_ERRORS_OF_PROGRAM = (
    "more than one element of the written-to tensor refers to a single memory location",
    "derivative for ",  # "aten::zeta is not implemented"
)
_PAST_BACKWARD = ("backward through the graph a second time", _CHANGED)
_SECOND_TIME = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). "
    "Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if "
    "you need to backward through the graph a second time or if you need to access saved tensors after calling backward."
)


def is_about_inplace_changes(error: Exception) -> bool:
    """Whether a compiler failed because an in-place operation changed a tensor that a gradient needs."""
    return isinstance(error, RuntimeError) and _CHANGED in str(error)


def is_error_of_program(error: Exception) -> bool:
    """Whether a compiler failed on an error of the program, which would raise too, then or in its backward pass."""
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _ERRORS_OF_PROGRAM)


def restore_autograd_state(graph: fx.Graph, checks_each_result: bool) -> Callable[[Compiled], Compiled]:
    """Prepares a graph for compilers. Returns a function that wraps the compiled graph and corrects its results.
    `checks_each_result`: tries for each result whether it can be differentiated, which is slow; otherwise only if the graph
    contains a backward pass. It is asked for where a compiler failed to differentiate the graph without."""
    returned: Any = graph.output_node().args[0]
    results = list(returned) if isinstance(returned, (list, tuple)) else []  # a graph of the tracer returns several
    failed = checks_each_result
    checks_each_result = checks_each_result or any(node.target is torch.autograd.grad for node in graph.nodes)
    past_backward = _results_past_backward(graph, results, failed) if checks_each_result else {}
    states = _states_to_restore(graph, results)
    replace_inference_mode(graph)
    if not past_backward and not states:
        return lambda compiled: compiled
    with graph.inserting_before(graph.output_node()):
        for index in past_backward:
            node = results[index] = graph.call_method("detach", (results[index],))
            example = node.args[0].meta[EXAMPLE]
            with mode_of(example):
                node.meta[EXAMPLE] = example.detach()
    graph.output_node().args = (tuple(results),)

    def around(compiled: Compiled) -> Compiled:
        def run(*args: Any) -> Any:
            results = list(compiled(*args))
            for index, message in past_backward.items():
                results[index] = _raising_in_backward(results[index], message)
            made: dict[int, torch.Tensor] = {}  # results that are one tensor stay one
            for index, state in states.items():
                result = results[index]
                results[index] = made[id(result)] if id(result) in made else made.setdefault(id(result), state.restore(result))
            return results

        return run

    return around


@dataclasses.dataclass(frozen=True)
class _AutogradState:
    """The autograd state of a result."""

    view: Any  # the CreationMeta of a view that must not be written to; else None
    inference: bool | None  # whether it is an inference tensor; None if the graph does not enter inference mode

    def restore(self, result: torch.Tensor) -> torch.Tensor:
        if self.inference is not None and result.is_inference() is not self.inference and not result.requires_grad:
            return alias_in_mode(result, self.inference)
        if self.view is None or result.is_inference():
            return result
        if not result._is_view():
            result = result.view_as(result)
        if result._is_view() and _autograd._get_creation_meta(result) == _PLAIN:
            _autograd._set_creation_meta(result, self.view)
        return result


def _states_to_restore(graph: fx.Graph, results: list[Any]) -> dict[int, _AutogradState]:
    """index of a result -> the state that has to be restored."""
    switches = enters_inference_mode(graph)
    found: dict[int, _AutogradState] = {}
    for index, node in enumerate(results):
        example = node.meta.get(EXAMPLE) if isinstance(node, fx.Node) and node.op != "placeholder" else None
        if not isinstance(example, torch.Tensor) or example.layout != torch.strided or isinstance(example, WrapperFake):
            continue  # a wrapper has no memory of which another tensor could be made
        view = _autograd._get_creation_meta(example) if example._is_view() and not example.is_inference() else _PLAIN
        state = _AutogradState(None if view == _PLAIN else view, example.is_inference() if switches else None)
        if state != _AutogradState(None, None):
            found[index] = state
    return found


def _results_past_backward(graph: fx.Graph, results: list[Any], failed: bool) -> dict[int, str]:
    """index of a result that requires gradients but cannot be differentiated any more -> autograd's error message. Not all fakes
    notice that an operator writes to them (`_fused_sgd_`); where a compiler `failed` over such a write, results whose history a
    backward pass of the graph has freed are taken for those."""
    freed = {node.args[0] for node in graph.nodes if failed and node.target is torch.autograd.grad and _frees(node)}
    inputs = [node.meta[EXAMPLE] for node in graph.nodes if node.op == "placeholder" and _requires_grad(node)]
    found: dict[int, str] = {}
    for index, node in enumerate(results):
        if inputs and _requires_grad(node) and node.op != "placeholder":
            message = _SECOND_TIME if node in freed else _backward_error(node.meta[EXAMPLE], inputs)
            if message is not None:
                found[index] = message
    return found


def _frees(node: fx.Node) -> bool:
    return not node.kwargs.get("retain_graph") and not node.kwargs.get("create_graph")


def _backward_error(result: Any, inputs: list[Any]) -> str | None:
    with mode_of(result):
        try:
            torch.autograd.grad(result, inputs, torch.empty_like(result), retain_graph=True, allow_unused=True)
        except RuntimeError as error:
            return str(error) if any(words in str(error) for words in _PAST_BACKWARD) else None
    return None


def _requires_grad(node: Any) -> bool:
    example = node.meta.get(EXAMPLE) if isinstance(node, fx.Node) else None
    return isinstance(example, torch.Tensor) and example.requires_grad


def _raising_in_backward(result: torch.Tensor, message: str) -> torch.Tensor:
    """A tensor that requires a gradient, whose backward pass raises."""
    error = torch._C._functions.DelayedError(message.encode(), 1)
    return error(result.detach().requires_grad_())
