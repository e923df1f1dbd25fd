"""Strides of results that have dims of size 0 or 1 are those that the operator gives when it runs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.support import captured_made

OPERATIONS = {
    "a number": lambda y, z: y / 4,
    "a tensor without dims": lambda y, z: y + torch.tensor(3.0),
    "a constant to the left": lambda y, z: 2 - y,
    "floor division": lambda y, z: y // 2,
    "one operand": lambda y, z: torch.sigmoid(y),
    "two operands": lambda y, z: y * z,
    "another shape": lambda y, z: y - z[:1],
    "three operands": lambda y, z: torch.where(y > 0, y, z),
    "comparison": lambda y, z: y == 2,
    "bounds": lambda y, z: y.clamp(0, 1),
    "copy": lambda y, z: y.clone(),
}
LAYOUTS = {
    "a turned row": lambda: torch.ones(3, 1).t(),
    "a turned column": lambda: torch.ones(1, 3).t(),
    "empty": lambda: torch.ones(3, 0).t(),
    "two small dims": lambda: torch.ones(1, 2, 1, 3).permute(3, 0, 1, 2),
    "a small dim inside": lambda: torch.ones(2, 3, 1).permute(1, 2, 0),
    "all small": lambda: torch.empty_strided((1, 1, 1), (7, 3, 5)).fill_(1.0),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_tensors_made_like_another_have_its_strides(layout: str) -> None:
    def f(y: torch.Tensor) -> Any:
        made = torch.zeros_like(y), torch.rand_like(y), torch.full_like(y, 2.0), torch.ones_like(y, dtype=torch.int64)
        return [each.stride() for each in made]

    captured_made(f, lambda: ((LAYOUTS[layout](),), {}), dynamic=False)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides_are_those_of_the_operator(layout: str, dynamic: bool) -> None:
    def f(y: torch.Tensor, z: torch.Tensor) -> Any:
        return [operation(y, z).stride() for operation in OPERATIONS.values()]

    captured_made(f, lambda: ((LAYOUTS[layout](), LAYOUTS[layout]().contiguous()), {}), dynamic=dynamic)
