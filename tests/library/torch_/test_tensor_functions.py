"""Methods that `torch.Tensor` defines in Python, called by class."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from tests.support import breaks, captured


def test_a_method_called_by_class_is_the_tensors_method():
    captured(lambda x: (torch.Tensor.split(x, 2), torch.Tensor.norm(x), torch.Tensor.unflatten(x, 0, (2, 2))), torch.ones(4))


def test_a_method_called_by_class_on_something_else_is_left_to_cpython():
    class Other:
        pass

    def fn(x):
        try:
            return torch.Tensor.split(Other(), 2)
        except Exception as error:
            return x + len(type(error).__name__)

    breaks(fn, torch.ones(4))


def test_linear_cross_entropy_is_traced_through():
    if hasattr(F, "linear_cross_entropy"):
        captured(lambda x, w, t: F.linear_cross_entropy(x, w, t), torch.randn(3, 4), torch.randn(5, 4), torch.tensor([0, 1, 4]))
