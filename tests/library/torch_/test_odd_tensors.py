"""Sparse, quantised and nested tensors: the graph breaks where it cannot hold one, and the program runs right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.support import breaks, captured, check
from tests.support.comparing import Comparison

SPARSE = torch.eye(3).to_sparse()
ROWS = torch.eye(3).to_sparse_csr()
QUANTISED = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8)
NESTED = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: (SPARSE * 2) @ x,
        lambda x: x @ SPARSE,
        lambda x: SPARSE.coalesce().values().sum() + x,
        lambda x: torch.sparse.sum(SPARSE, 1).to_dense() + x,
        lambda x: ROWS.values().sum() + x,
        lambda x: (x + 1).to_sparse().to_dense(),
        lambda x: x.to_sparse_csr().to_dense() + 1,
        lambda x: QUANTISED.q_scale() * x,
        lambda x: (QUANTISED == QUANTISED).sum() + x,
        lambda x: torch.quantize_per_tensor(x.t(), 0.1, 0, torch.quint8).dequantize(),
        lambda x: (NESTED * 2).to_padded_tensor(0.0) + x[:2],
        lambda x: torch.nested.nested_tensor([x[0], x[1]]).to_padded_tensor(0.0),
        lambda x: x.to_mkldnn().to_dense() + 1,
    ],
)
def test_a_tensor_of_another_kind_breaks_the_graph(fn: Callable[..., Any]) -> None:
    breaks(fn, torch.arange(9.0).reshape(3, 3))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: torch.quantize_per_tensor(x + 1, 0.1, 3, torch.quint8),
        lambda x: torch.quantize_per_channel(x, torch.ones(3), torch.zeros(3, dtype=torch.long), 0, torch.qint8),
    ],
)
def test_a_quantised_tensor_is_returned_as_it_is(fn: Callable[..., Any]) -> None:
    captured(fn, torch.arange(9.0).reshape(3, 3))
    with pytest.raises(AssertionError, match="int_repr"):
        Comparison().same(fn(torch.arange(9.0).reshape(3, 3)), fn(torch.arange(1.0, 10.0).reshape(3, 3)), "result")


def test_a_sparse_tensor_that_stays_inside_is_captured() -> None:
    check(lambda x: torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 2]]), x[:2], (3, 3)).to_dense(), torch.randn(3))
