"""heapq where a comparison raises: the items lie where the functions in C leave them."""

from __future__ import annotations

import heapq

import pytest
import torch

from tests.support import check_made

X = torch.ones(2)


class Fails:
    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        if other.value == 2:
            raise ValueError("two")
        return self.value < other.value


@pytest.mark.parametrize("values", [(5, 2, 8, 1), (9, 8, 7, 6, 2), (3, 2, 1)])
@pytest.mark.parametrize("change", [heapq.heapify, heapq.heappop, lambda heap: heapq.heappush(heap, Fails(0))])
def test_the_items_lie_where_c_leaves_them(values, change):
    def fn(x, heap):
        try:
            change(heap)
        except ValueError:
            x = x + 1
        return x, [item.value for item in heap]

    check_made(fn, lambda: ((X, [Fails(value) for value in values]), {}))
