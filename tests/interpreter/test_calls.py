"""Calls of Python functions that are traced through."""

from __future__ import annotations

import torch

from tests.support import check


def test_recursion_without_end_raises_recursion_error():
    def deep(n):
        id(n)  # breaks the graph
        try:
            return deep(n + 1)
        except RecursionError:
            return n > 10

    def fn(x):
        return x + 1, deep(0)

    check(fn, torch.ones(2))
