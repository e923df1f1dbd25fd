"""Whether a fake tensor is contiguous: an answer is that of every tensor for which the guards hold."""

from __future__ import annotations

import itertools

import pytest
import torch

from shapes import DimPolicy
from tests.graph.fakes import guards_hold, strides_at, values_of_symbols
from tracer.graph.fakes.fake_tensors import FakeWorld
from tracer.sources.roots import LocalSource

QUESTIONS = {
    "contiguous": lambda x: x.is_contiguous(),
    "turned": lambda x: x.transpose(0, 1).is_contiguous(),
    "a part": lambda x: x[:, :2].is_contiguous(),
    "channels last": lambda x: x[None, None].is_contiguous(memory_format=torch.channels_last),
    "channels last of a permuted one": lambda x: (
        x[None, None].permute(0, 2, 3, 1).is_contiguous(memory_format=torch.channels_last)
    ),
}


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("traced", list(itertools.product((0, 1, 2, 5), (0, 1, 3))))
def test_an_answer_on_layouts_holds_wherever_its_guards_do(name, traced):
    world = FakeWorld(duck_shape=False, specialize_zero_one=False)
    fake = world.fakify(torch.empty(traced), LocalSource("x0"), [DimPolicy.DYNAMIC] * 2)
    answer = world.run(QUESTIONS[name], [fake])
    assert answer == QUESTIONS[name](torch.empty(traced))
    if name == "contiguous":
        assert not world.env.guards or 0 in traced or 1 in traced  # PyTorch asks whether each size is 0 or 1, for no need
    for shape in itertools.product((0, 1, 2, 3, 5), (0, 1, 2, 3)):
        x = torch.empty(shape)
        if guards_hold(world, [x]) and strides_at(fake, values_of_symbols(world, [x])) == x.stride():
            assert answer == QUESTIONS[name](x), shape
