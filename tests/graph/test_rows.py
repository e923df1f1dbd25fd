"""Rows that are independent are proved to be so, operator by operator; what mixes them, or has no rule, is refused."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F

import tracer
from tests.soundness.test_small_sizes import PROGRAMS

WEIGHT, TABLE = torch.randn(6, 6), torch.randn(50, 6)


def verdicts(function, spec, example):
    """What the contract says of rows along B, for each region."""
    made = tracer.optimize("eager")(function)
    with torch.no_grad():
        found = tracer.precompile(made, spec, example)
    assert found.certified, str(found)
    return {region["rows"]["B"] for region in made.contract().data["regions"]}


X = torch.randn(4, 5, 6)
SPEC = "x: B, S, _; B in 2..64; S in 2..64"
INDEPENDENT = {
    "elementwise": lambda x: (x * 2 + 1).relu() / x.exp(),
    "linear": lambda x: F.linear(x, WEIGHT, WEIGHT[0]),
    "matmul": lambda x: x @ WEIGHT + 1,
    "layer norm": lambda x: F.layer_norm(x, (6,), WEIGHT[0]),
    "softmax": lambda x: x.softmax(-1) + x.softmax(1),
    "batched": lambda x: x @ x.transpose(1, 2),
    "attention": lambda x: F.scaled_dot_product_attention(*[x.unflatten(-1, (2, 3)).transpose(1, 2)] * 3),
    "heads": lambda x: x.view(x.shape[0], x.shape[1], 2, 3).permute(0, 2, 1, 3).reshape(x.shape[0] * 2, x.shape[1], 3).sum(-1),
    "flattened": lambda x: (x.reshape(-1, 6) @ WEIGHT).view(x.shape[0], x.shape[1], 6).mean(1),
    "embedding": lambda x: F.embedding((x > 0).long(), TABLE).sum(2),
    "rows elsewhere": lambda x: x.transpose(0, 1).contiguous().sum(2),
    "parts": lambda x: torch.cat([part * 2 for part in x.chunk(2, -1)], -1)[:, 0],
    "constants": lambda x: x + torch.zeros(x.shape[0], 1, 1) + torch.ones(1, 1, 6).expand(x.shape[0], 1, 6),
    "mask": lambda x: x.masked_fill(torch.ones(5, 6, dtype=torch.bool).tril()[None, 0, :], 0.0),
    "along the length": lambda x: x.cumsum(1).amax(1, keepdim=True) + x.argmax(2)[:, :1, None],
    "numbers of rows": lambda x: x + torch.arange(x.shape[0])[:, None, None],
    "own rows": lambda x: x[torch.arange(x.shape[0])[:, None], torch.arange(2)[None]] + x[torch.arange(x.shape[0]), 1][:, None],
    "elements of rows": lambda x: x[torch.arange(x.shape[0]), x.argmax(1)[:, 0]],
    "first of a table": lambda x: x + TABLE[: x.shape[0], None] if x.shape[0] < 50 else x + 1,
    "stacked": lambda x: torch.stack([x, x * 2], 1).select(1, 0).unsqueeze(0).squeeze(0),
}
MIXING = {
    "mean of the batch": (lambda x: x - x.mean(0), "reduces over the rows"),
    "sum of all": (lambda x: x * x.sum(), "reduces over the rows"),
    "batch norm": (lambda x: F.batch_norm(x, None, None, training=True), "no rule|reduces|writes"),
    "softmax of the batch": (lambda x: x.softmax(0), "goes along the rows"),
    "the batch size": (lambda x: x / x.shape[0], "computes with the batch size"),
    "neighbours": (lambda x: x[1:] - x[:-1], "takes some of the rows"),
    "the last row": (lambda x: x + x[-1], "takes one of the rows"),
    "products of rows": (lambda x: x[:, 0] @ x[:, 0].T, "multiplies rows|beside its rows"),
    "another order": (lambda x: x.flip(0), "goes along the rows"),
    "numbers from the end": (lambda x: x + torch.arange(-x.shape[0], 0)[:, None, None], "makes a tensor of the batch size"),
    "numbers of other rows": (lambda x: x[(torch.arange(x.shape[0]) - 1)], "reads from other rows"),
    "numbers summed up": (lambda x: x[torch.arange(x.shape[0])[:, None].expand(-1, 2).sum(1) - 2], "reads from other rows"),
    "rows by data": (lambda x: x[x[:, 0, 0].argsort()], "no rule|goes along|reads from other rows"),
    "filled with the size": (lambda x: x + torch.full((x.shape[0], 1, 1), x.shape[0]), "batch size"),
    "random": (lambda x: x + torch.rand_like(x), "random"),
    "dropout": (lambda x: F.dropout(x, 0.5, True), "random"),
    "behind each other": (lambda x: torch.cat([x, x]), "puts rows behind each other"),
    "mixed dims": (lambda x: x.transpose(0, 1).reshape(-1, 6) * 2, "mixes rows"),
    "written": (lambda x: x.clone().add_(1).index_fill_(0, torch.tensor([0]), 0.0), "writes into its input"),
    "no rule": (lambda x: torch.cdist(x, x), "no rule"),
    "summed over": (lambda x: x[:, :, 0].T @ x[:, :, 1], "sums over the rows|multiplies rows"),
}


@pytest.mark.parametrize("name", INDEPENDENT)
def test_rows_that_do_not_mix_are_proved_independent(name):
    assert verdicts(INDEPENDENT[name], SPEC, X) == {"independent"}


@pytest.mark.parametrize("name", MIXING)
def test_rows_that_mix_are_refused_with_the_reason(name):
    function, words = MIXING[name]
    (verdict,) = verdicts(function, SPEC, X)
    assert verdict != "independent"
    assert re.search(words, verdict), verdict


def test_the_reason_names_the_users_line():
    def f(x):
        y = x * 2
        return y - y.mean(0)  # here

    (verdict,) = verdicts(f, SPEC, X)
    assert "test_rows.py" in verdict and "# here" in verdict


@pytest.mark.parametrize("name", INDEPENDENT)
def test_what_is_proved_holds(name):
    """The first rows of a padded batch are those of the batch alone, to the rounding of kernels of other sizes."""
    function = INDEPENDENT[name]
    for rows in (2, 3, 5):
        batch = torch.randn(8, 5, 6)
        alone, padded = function(batch[:rows]), function(torch.cat([batch[:rows], torch.full((8 - rows, 5, 6), 77.0)]))
        dim = next((dim for dim in range(padded.dim()) if padded.shape[dim] != alone.shape[dim]), None)
        assert dim is not None
        block = padded.shape[dim] // 8
        torch.testing.assert_close(padded.narrow(dim, 0, rows * block), alone)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_program_is_called_independent_whose_rows_are_not(name):
    """Tried on programs of other tests with two inputs, of which x has the rows."""
    made = tracer.optimize("eager")(PROGRAMS[name])
    found = tracer.precompile(made, "x: B, S; y: C, S; B in 2..6; C in 2..3; S in 2..6", (torch.randn(3, 4), torch.randn(2, 4)))
    if not found.certified:
        return
    for region in made.contract().data["regions"]:
        if region["kind"] == "graph" and region["rows"]["B"] == "independent" and region["text"] == "every shape":
            x, y = torch.randn(6, 4), torch.randn(2, 4)
            for part, whole in zip(_tensors(PROGRAMS[name](x[:4], y)), _tensors(PROGRAMS[name](x, y)), strict=True):
                dim = next((dim for dim in range(part.dim()) if part.shape[dim] != whole.shape[dim]), None)
                torch.testing.assert_close(whole if dim is None else whole.narrow(dim, 0, part.shape[dim]), part, equal_nan=True)


def _tensors(result):
    return [each for each in torch.utils._pytree.tree_leaves(result) if isinstance(each, torch.Tensor)]
