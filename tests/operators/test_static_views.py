"""Views of fakes whose sizes are all ints are found by the kernel in C++, and lie as the real ones do."""

from __future__ import annotations

import pytest
import torch

from shapes.policy import DimPolicy
from tracer.graph.fakes.fake_mode import FakeMode
from tracer.graph.fakes.fake_tensors import FakeWorld
from tracer.sources.roots import LocalSource

VIEWS = {
    "view": lambda x: x.view(6, 4),
    "view of nothing": lambda x: x[:0].view(0, 3, 4),
    "unsqueeze": lambda x: x.unsqueeze(-1),
    "transpose": lambda x: x.transpose(0, 2),
    "permute": lambda x: x.permute(2, 0, 1),
    "t": lambda x: x[0].t(),
    "slice with a step": lambda x: x[:, ::2, 1:],
    "select": lambda x: x.select(1, -1),
    "expand": lambda x: x.unsqueeze(1).expand(-1, 5, -1, -1),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 3), 5),
    "diagonal": lambda x: x.diagonal(1, 1, 2),
    "unfold": lambda x: x.unfold(2, 2, 1),
    "squeeze": lambda x: x[:, :1].squeeze(1),
    "of another dtype": lambda x: x.view(torch.int32),
    "real": lambda x: torch.complex(x, x).real,
    "conj": lambda x: torch.complex(x, x).conj(),
}


def described(tensor):
    lies = tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
    return tensor.dtype, *lies, tensor.is_conj(), tensor.is_neg(), tensor._is_view()


@pytest.fixture
def asked(monkeypatch):
    """The operators for which PyTorch's rules were asked."""
    seen = []
    original = FakeMode._dispatch_impl

    def noted(self, func, types, args, kwargs):
        seen.append(func)
        return original(self, func, types, args, kwargs)

    monkeypatch.setattr(FakeMode, "_dispatch_impl", noted)
    return seen


@pytest.mark.parametrize("name", VIEWS)
def test_a_static_view_lies_as_the_real_one(name):
    real = torch.arange(24.0).view(2, 3, 4)
    world = FakeWorld()
    fake = world.fakify(real, LocalSource("x"), [DimPolicy.STATIC] * 3)
    assert described(world.run(VIEWS[name], (fake,))) == described(VIEWS[name](real))


def test_torchs_rules_are_not_asked_for_static_views(asked):
    world = FakeWorld()
    fake = world.fakify(torch.zeros(2, 3, 4), LocalSource("x"), [DimPolicy.STATIC] * 3)
    for name in ("view", "unsqueeze", "transpose", "permute", "slice with a step", "select", "expand", "as_strided"):
        world.run(VIEWS[name], (fake,))
    assert asked == []


def test_a_view_that_does_not_exist_raises_as_torchs_rule_does():
    world = FakeWorld()
    fake = world.fakify(torch.zeros(2, 3, 4), LocalSource("x"), [DimPolicy.STATIC] * 3)
    with pytest.raises(RuntimeError, match="invalid for input of size"):
        world.run(lambda x: x.view(5, 5), (fake,))
    with pytest.raises(IndexError):
        world.run(lambda x: x.select(1, 7), (fake,))
