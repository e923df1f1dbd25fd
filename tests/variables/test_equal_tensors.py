"""`torch.equal` in a condition."""

from __future__ import annotations

import torch

from tests.support import captured, check


def test_tensors_of_different_sizes_are_not_equal():
    def fn(x, y):
        if not torch.equal(x, y[:1]) and not x.equal(y.unsqueeze(0)):
            x = x + 1
        indices = y.long()
        return x, torch.equal(indices, indices)

    captured(fn, torch.ones(3), torch.arange(3.0))


def test_data_decide_whether_tensors_of_one_size_are_equal():
    def fn(x, y):
        return x + 1 if torch.equal(x, y) else x - 1

    check(fn, torch.ones(3), torch.ones(3))
    nan = torch.tensor([float("nan")])
    check(lambda x: x + 1 if torch.equal(x, x) else x - 1, nan)
    check(fn, torch.ones(3), torch.ones(3, dtype=torch.int64))
