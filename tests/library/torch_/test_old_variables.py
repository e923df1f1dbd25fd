"""torch.autograd.Variable around tensors: what it gives shares memory with the tensor, and is a leaf of its own."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import Variable

from tests.support import captured, check


def test_a_variable_is_a_leaf_of_its_own_in_the_memory_of_the_tensor():
    def program(x, weight):
        v, w = Variable(x), Variable(weight, requires_grad=True)
        (v * w).sum().backward()
        v.add_(1)
        return v, w.grad, v.requires_grad, isinstance(v, Variable), type(w), Variable(torch.ones(2), volatile=False)

    captured(program, torch.randn(3), torch.nn.Parameter(torch.randn(3)))


class Mask(torch.nn.Module):
    def forward(self, x):
        return Variable(x.data.new(x.size(0), 1).fill_(2.0), requires_grad=False) * x


def test_a_mask_in_a_variable_passes_gradients_on():
    mask = Mask()
    captured(lambda x: torch.autograd.grad(mask(x).sum(), x), torch.randn(3, 2, requires_grad=True))


@pytest.mark.parametrize(
    "program",
    [
        lambda x: Variable(),
        lambda x: Variable(3),
        lambda x: Variable(x, volatile=True),
        lambda x: Variable(x.long(), requires_grad=True),
        lambda x: Variable(x, wrong=1),
    ],
)
@pytest.mark.filterwarnings("ignore:volatile")
def test_what_is_no_plain_variable_is_left_to_torch(program):
    check(program, torch.randn(3))
