"""Models of the zoo are trained: five steps of AdamW with dropout on leave the gradients and parameters that eager leaves."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import tracer
from benchmarks.zoo_models import ZOO
from tests.support.graphs import Graphs

QUICK = ["mlp", "distilbert"]
ALL = [*QUICK, "bert", "gpt2", "llama", "t5", "vit", "resnet50", "whisper", "clip", "lstm_tagger", "transformer"]
STEPS = 5


def loss_of(result: Any) -> torch.Tensor:
    """The sum of squares of all that the model computed."""
    tensors = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    assert tensors
    return sum(tensor.float().square().mean() for tensor in tensors)  # type: ignore[return-value]


def train(model: torch.nn.Module, call: Any, inputs: Any) -> list[float]:
    """Losses of the steps; batches differ in size, randomness starts from the same seed."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for step in range(STEPS):
        torch.manual_seed(step)
        arguments = inputs(2 + step)
        optimizer.zero_grad()
        loss = loss_of(call(**arguments))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.full]) for n in ALL])
def test_five_steps_of_training_equal_eager(name):
    torch.manual_seed(0)
    eager, inputs = ZOO[name].build()
    eager.train()
    traced = copy.deepcopy(eager)
    graphs = Graphs()
    decorated = tracer.optimize(graphs.backend)(traced)
    expected = train(eager, eager, inputs)
    assert train(traced, decorated, inputs) == pytest.approx(expected, rel=1e-5)
    assert graphs
    for (key, left), (_, right) in zip(eager.named_parameters(), traced.named_parameters()):
        assert (left.grad is None) == (right.grad is None), key
        if left.grad is not None:
            torch.testing.assert_close(right.grad, left.grad, msg=lambda text, key=key: f"{key}.grad: {text}")
        torch.testing.assert_close(right, left, msg=lambda text, key=key: f"{key}: {text}")
    for (key, left), (_, right) in zip(eager.named_buffers(), traced.named_buffers()):
        torch.testing.assert_close(right, left, msg=lambda text, key=key: f"{key}: {text}")
