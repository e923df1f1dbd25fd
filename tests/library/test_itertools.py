"""Iterators of itertools."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests.support import captured, check


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


@pytest.mark.skipif(not hasattr(itertools, "batched"), reason="Python 3.12 brings itertools.batched")
def test_batches_of_an_iterator_that_gives_more_after_its_end_or_an_exception():
    class Numbers:
        def __init__(self, ends):
            self.count, self.ends = 0, ends

        def __iter__(self):
            return self

        def __next__(self):
            self.count += 1
            if self.count in self.ends:
                raise self.ends[self.count]
            return self.count

    def fn(x, ends):
        batches, taken = itertools.batched(Numbers(ends), 2), []
        for _ in range(4):
            try:
                taken.append(next(batches, "end"))
            except ValueError:
                taken.append("error")
        return x + 1, taken

    for ends in ({2: StopIteration}, {3: StopIteration}, {2: ValueError}, {3: ValueError}):
        captured(fn, torch.ones(2), ends)
