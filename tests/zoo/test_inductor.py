"""Models of the zoo through Inductor: one dynamic compile agrees with eager at four batch sizes, forward and backward."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import tracer
from benchmarks.zoo_models import ZOO
from tests.zoo.test_training import loss_of

# No ConvNeXt: this torch's Inductor fails on convolutions over sizes that vary, under torch.compile too.
NAMES = ["mlp", "bert", "gpt2", "llama", "vit", "transformer", "distilbert", "clip_text"]
BATCHES = (4, 6, 3, 9)


def outputs_and_gradients(model: torch.nn.Module, call: Any, arguments: dict[str, Any]) -> list[torch.Tensor]:
    model.zero_grad()
    result = call(**arguments)
    loss_of(result).backward()
    outputs = [leaf.detach() for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    return outputs + [p.grad for p in model.parameters() if p.grad is not None]


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_inductor_agrees_with_eager_at_four_batch_sizes_from_one_compile(name):
    torch.manual_seed(0)
    eager, inputs = ZOO[name].build()
    eager.eval()
    compiled = copy.deepcopy(eager)
    decorated = tracer.optimize("inductor", dynamic=True)(compiled)
    for n in BATCHES:
        torch.manual_seed(n)
        arguments = inputs(n)
        expected = outputs_and_gradients(eager, eager, arguments)
        seen = outputs_and_gradients(compiled, decorated, arguments)
        assert len(expected) == len(seen)
        for left, right in zip(expected, seen):
            torch.testing.assert_close(right, left, rtol=1e-4, atol=1e-4)
    assert len(tracer.region_of(decorated).entries()) == 1
