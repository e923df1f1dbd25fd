"""Iteration over objects of the program."""

from __future__ import annotations

import torch

from tests.support import captured

X = torch.arange(3.0)


def test_objects_with_items_alone_are_iterated():
    class Tens:
        def __getitem__(self, index):
            if index > 2:
                raise IndexError
            return index * 10

        def __len__(self):
            return 3

    def fn(x):
        every = list(Tens()), [i for i in Tens()], list(reversed(Tens())), 20 in Tens(), max(Tens()), dict(enumerate(Tens()))
        half = iter(Tens())
        return x + next(half), every, half

    captured(fn, X)
