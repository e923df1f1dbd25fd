"""What was decorated for itself is traced through where traced code calls it."""

from __future__ import annotations

from typing import Any

import torch

import tracer
from tests.support import captured, check


@tracer.optimize("eager")
def _inner(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) + 1


class _Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 3

    @tracer.optimize("eager")
    def twice(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


def test_a_decorated_function_is_traced_through() -> None:
    def f(x: torch.Tensor) -> Any:
        return _inner(x) * 2, _inner

    captured(f, torch.ones(3))


def test_a_decorated_method_is_traced_through() -> None:
    layer = _Layer()

    def f(x: torch.Tensor) -> Any:
        return layer.twice(x) + 1

    captured(f, torch.ones(3))


def test_an_optimized_module_is_traced_through() -> None:
    layer = tracer.optimize("eager")(_Layer())

    def f(x: torch.Tensor) -> Any:
        return layer(x) + layer.scale, layer

    captured(f, torch.ones(3))


def test_a_module_compiled_in_place_is_traced_through() -> None:
    layer = tracer.compile_module(_Layer())

    def f(x: torch.Tensor) -> Any:
        return layer(x) + 1

    captured(f, torch.ones(3))


def test_a_module_compiled_in_place_keeps_its_hooks_when_traced_through() -> None:
    layer = tracer.compile_module(_Layer())
    layer.register_forward_hook(lambda module, args, output: output + 10)

    def f(x: torch.Tensor) -> Any:
        return layer(x) + 1

    assert check(f, torch.ones(3)).result[0] == 14
