"""Rules are called before torch, and may leave a call to it."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor

from tests.graph.fakes import make_fakes
from tracer.graph.fakes.fake_mode import FakeMode
from tracer.operators import meta as meta_module
from tracer.operators.meta import fake_form, fake_method, meta


@pytest.fixture(autouse=True)
def rules_of_their_own(monkeypatch):
    monkeypatch.setattr(meta_module, "_RULES", {})
    monkeypatch.setattr(FakeMode, "cache_of_static_sizes", {})


def test_a_rule_stands_for_a_function_where_it_tells():
    @meta(torch.relu, longest=2)
    def _relu(function, x, longest):
        return NotImplemented if x.dim() > longest else x.new_empty(7)

    assert fake_form(torch.relu)(torch.ones(3)).shape == (7,)
    assert fake_form(torch.relu)(torch.ones(3, 1, 1)).shape == (3, 1, 1)
    assert fake_form(torch.abs) is torch.abs


def test_a_rule_stands_for_an_operator_below_autograd():
    seen = []

    @meta(torch.ops.aten.relu.default)
    def _relu(func, self):
        seen.append(func)
        return torch.empty_like(self)

    world, (fake,) = make_fakes([torch.ones(3)], [torch.ones(3)])
    result = world.run(torch.relu, [fake.requires_grad_()])
    assert type(result) is FakeTensor and result.grad_fn is not None
    assert seen == [torch.ops.aten.relu.default]


def test_a_rule_stands_for_a_method():
    @meta(torch.Tensor.relu)
    def _relu(function, x):
        return 3

    _, (fake,) = make_fakes([torch.ones(3)], [torch.ones(3)])
    assert fake_method(fake, "relu")() == 3


def test_no_target_has_two_rules():
    meta(torch.relu)(len)
    with pytest.raises(AssertionError, match="two rules"):
        meta(torch.relu)(len)
