"""Iterators of itertools."""

from __future__ import annotations

import itertools

import torch

from tests.support import check


def test_pairwise_over_an_iterator_that_asks_the_pairs():
    def make_pairs(at):
        class Numbers:
            count = 0

            def __iter__(self):
                return self

            def __next__(self):
                self.count += 1
                return next(pairs) if self.count in at else [self.count]

        pairs = itertools.pairwise(Numbers())
        return [next(pairs) for _ in range(4)]

    def fn(x, at):
        return x + 1, make_pairs(at)

    for at in ({1}, {2}, {3}):
        check(fn, torch.ones(2), at)
