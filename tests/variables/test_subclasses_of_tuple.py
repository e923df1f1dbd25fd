"""Tuple subclasses with methods of their own in place of the built-in ones."""

from __future__ import annotations

import pytest
import torch

from tests.support import check

X = torch.arange(6.0).reshape(2, 3)


class Longer(tuple):
    __slots__ = ()

    def __len__(self):
        return 10

    def __iter__(self):
        return iter([7, 8])


def test_a_tuple_with_its_own_len_and_iter():
    def f(x, items):
        return x + items[1], len(items), list(items), items

    check(f, X, Longer((1, 2)))


@pytest.mark.parametrize("items", [(1,), (), Longer((1, 2)), (True,), ("a",), (1.5,)])
def test_a_tuple_and_a_size_make_a_size(items):
    def f(x):
        size = items
        try:
            size += x.shape
        except TypeError as error:
            return str(error)
        return x * 2, size, x.shape + (7,)

    check(f, X)
