"""Functions that the user marked are known by identity: two of them that share their code are two operations."""

from __future__ import annotations

from collections.abc import Callable

import torch

import tracer

X = torch.ones(3)


def _allowed(factor: int) -> Callable[[torch.Tensor], torch.Tensor]:
    @tracer.allow_in_graph
    def operation(x: torch.Tensor) -> torch.Tensor:
        return x * factor

    return operation


def test_allowed_functions_with_the_same_code_are_told_apart() -> None:
    graphs = []

    def backend(gm: torch.fx.GraphModule, example_inputs: list[object]) -> object:
        graphs.append(gm)
        return gm.forward

    @tracer.optimize(backend)
    def f(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return function(x) + 1

    first, second = _allowed(2), _allowed(3)
    for _ in range(2):
        assert torch.equal(f(first, X), X * 2 + 1)
        assert torch.equal(f(second, X), X * 3 + 1)
    assert len(graphs) == 2
    assert [node.target.__name__ for node in graphs[0].graph.nodes if node.op == "call_function"] == ["operation", "add"]


def test_what_a_function_disabled_for_itself_calls_is_traced() -> None:
    graphs = []

    def inner(x: torch.Tensor) -> torch.Tensor:
        return x + 2

    @tracer.disable(recursive=False)
    def outer(x: torch.Tensor) -> torch.Tensor:
        return inner(x)

    def backend(gm: torch.fx.GraphModule, example_inputs: list[object]) -> object:
        graphs.append(gm)
        return gm.forward

    assert torch.equal(tracer.optimize(backend)(outer)(X), X + 2)
    assert len(graphs) == 1
