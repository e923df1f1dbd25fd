"""Tensors made from nested lists of tensors and numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.support import captured, check

X = torch.linspace(-1, 2, 5)

NUMBERS_OF_TENSORS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "floats": lambda x: torch.tensor([x.sum(), x.mean()]),
    "nested, with numbers": lambda x: torch.tensor([[x.sum(), 1], [2.5, x.shape[0]]]),
    "ints": lambda x: torch.tensor([x.argmax(), 3]),
    "truth values": lambda x: torch.tensor([x.any(), True]),
    "halves": lambda x: torch.tensor((x.sum().half(), x.max().half())),
    "a half and a number": lambda x: torch.tensor([x.sum().half(), 1.5]),
    "doubles": lambda x: torch.tensor([x.sum().double(), x.argmin()]),
    "given a dtype": lambda x: torch.tensor([x.argmax(), x.sum()], dtype=torch.float64),
}


@pytest.mark.parametrize("name", NUMBERS_OF_TENSORS)
def test_the_numbers_in_tensors_make_a_tensor(name: str) -> None:
    captured(NUMBERS_OF_TENSORS[name], X)


NOT_NUMBERS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "vectors": lambda x: torch.tensor([x[:1], x[1:2]]),
    "floats as ints": lambda x: torch.tensor([x.sum()], dtype=torch.int64),
    "a leaf": lambda x: torch.tensor([x.sum()], requires_grad=True),
    "complex numbers": lambda x: torch.tensor([x.sum() + 1j]),
}


@pytest.mark.parametrize("name", NOT_NUMBERS)
def test_what_torch_converts_otherwise_is_left_to_it(name: str) -> None:
    check(NOT_NUMBERS[name], X)
