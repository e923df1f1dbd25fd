"""Graphs that a compiler cannot compile run as they are written, with a warning."""

from __future__ import annotations

import pytest
import torch

import tracer


def filled(x):
    y = (x * 1).t()
    y.fill_diagonal_(2.0)
    return y


def polygamma(x):
    return (x * 1).polygamma_(1)


@pytest.mark.parametrize("program", [filled, polygamma])
def test_an_operator_that_cannot_be_functionalised_runs_as_it_is_written(program):
    x = torch.rand(4, 4) + 1
    with pytest.warns(UserWarning, match="runs as it is, without the backend"):
        assert torch.equal(tracer.compile(program, backend="aot_eager")(x), program(x))


def test_a_gradient_whose_size_depends_on_data_runs_as_it_is_written():
    embedding = torch.nn.Embedding(20, 4, sparse=True, padding_idx=0)

    def loss(ids):
        return embedding(ids).square().sum()

    ids = torch.tensor([[0, 3, 3], [0, 7, 1]])
    gradients = []
    for run in (loss, tracer.compile(loss, backend="aot_eager")):
        embedding.zero_grad()
        run(ids).backward()
        gradients.append(embedding.weight.grad.to_dense())
    assert torch.equal(*gradients)


def test_what_has_no_derivative_runs_as_it_is_written_where_nobody_asks_for_it():
    def two(x):
        return x.sin().sum(), torch.special.zeta(x.abs() + 2, 2.0)

    x = torch.ones(3, requires_grad=True)
    with pytest.warns(UserWarning, match="runs as it is, without the backend"):
        loss, values = tracer.compile(two, backend="aot_eager")(x)
    loss.backward()
    assert torch.equal(x.grad, torch.ones(3).cos()) and torch.equal(values, two(x)[1])
