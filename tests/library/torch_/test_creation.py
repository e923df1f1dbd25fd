"""Tensors made from nested lists of tensors and numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import tracer
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


OF_NUMBERS_THAT_VARY: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
    "a double": lambda x, v: torch.tensor(v, dtype=torch.float64),
    "doubles": lambda x, v: torch.tensor([v, 1.5, x.shape[0]], dtype=torch.float64),
    "floats": lambda x, v: torch.tensor([v, x.shape[0]]),
    "ints": lambda x, v: torch.tensor([16777217 + x.shape[0], v], dtype=torch.int64),
    "like another tensor": lambda x, v: x.new_tensor(v),
    "several like another tensor": lambda x, v: x.double().new_tensor([[v, x.shape[0]], [0.1, 2]]),
    "like a tensor of ints": lambda x, v: x.long().new_tensor([x.shape[0], 3]),
    "given a dtype": lambda x, v: x.new_tensor([v], dtype=torch.float64),
}


@pytest.mark.parametrize("name", OF_NUMBERS_THAT_VARY)
def test_a_tensor_of_numbers_that_vary_is_exact_and_takes_two_compiles(name: str) -> None:
    program = OF_NUMBERS_THAT_VARY[name]

    def fn(x: torch.Tensor, v: float) -> torch.Tensor:
        return program(x, v)

    traced = tracer.compile(fn, fullgraph=True)
    for rows, v in ((2, 0.1), (3, 0.3), (4, 0.7), (5, 1e-9)):
        seen, expected = traced(torch.ones(rows), v), fn(torch.ones(rows), v)
        assert seen.dtype is expected.dtype and torch.equal(seen, expected)
    assert traced.stats()["compiles"] <= 2
