"""Subscripts of tensors that are neither numbers nor slices."""

from __future__ import annotations

import torch

from tests.support import captured


def test_a_range_is_an_index_like_a_list_of_its_numbers():
    def fn(x, y):
        picked = x[range(len(x)), y], x[range(2)], x[:, range(1, 4, 2)], x[range(0)].shape, x[range(2, -1, -1)]
        x[range(x.shape[0]), y] = 7
        x[range(2)] += 1
        return picked, x * 1

    captured(fn, torch.arange(12.0).reshape(3, 4), torch.tensor([1, 0, 3]))
