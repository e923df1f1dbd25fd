"""Frames of the standard library that CPython enters behind a graph break are not traced for themselves."""

from __future__ import annotations

import inspect
import typing
from typing import Any, NamedTuple

import torch

import tracer
from tests.support import breaks


def test_typing_and_inspect_behind_a_break() -> None:
    def f(x: torch.Tensor) -> Any:
        y = x + 1
        print(inspect.signature(eval("lambda a, b=2: a", {})), typing.get_type_hints(f), end="")
        typing.ForwardRef("int")
        return y * 2, str(inspect.signature(f))

    assert len(breaks(f, torch.ones(3)).graphs) == 2


def numbers_only(n: int, words: list[str]) -> float:
    return sum(len(word) * 1.5 for word in words) + n


def test_a_function_that_is_given_no_tensor_and_names_nothing_of_torch_is_left_alone_behind_a_break() -> None:
    def f(x: torch.Tensor, n: int) -> Any:
        y = x + 1
        return y * eval("g(n, words)", {"g": numbers_only}, {"n": n, "words": ["a", "bc"]})

    compiled = tracer.optimize()(f)
    for n in (1, 2, 3):
        assert torch.equal(compiled(torch.ones(3), n), f(torch.ones(3), n))
    codes = [entry.guarded_code.code for entry in tracer.region_of(compiled).entries()]
    traced = {code.co_name for code in codes if code is not None}
    assert traced and "numbers_only" not in traced


def test_a_function_of_tensors_behind_a_break_is_traced() -> None:
    def g(x: torch.Tensor) -> torch.Tensor:
        return x.relu() + 1

    def f(x: torch.Tensor) -> Any:
        return eval("g(x)", {"g": g}, {"x": x * 2})

    compiled = tracer.optimize()(f)
    assert torch.equal(compiled(torch.ones(3)), f(torch.ones(3)))
    codes = [entry.guarded_code.code for entry in tracer.region_of(compiled).entries()]
    assert "g" in {code.co_name for code in codes if code is not None}


class Scores(NamedTuple):
    best: torch.Tensor
    count: int


def test_named_tuples_that_are_made_behind_a_break_are_not_traced_for_themselves() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(net.parameters())

    def step(x: torch.Tensor) -> Any:
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        tracer.graph_break()
        return loss.item(), Scores(*map(type, (x, 1))), Scores(x, 1)

    traced = tracer.compile(step)
    for _ in range(4):
        traced(torch.randn(3, 2))
    assert {entry["function"].partition(".<resume")[0].rpartition(".")[2] for entry in traced.stats()["entries"]} == {"step"}
