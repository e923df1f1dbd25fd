"""Iterators of itertools."""

from __future__ import annotations

import itertools
import operator
import warnings

import pytest
import torch

import tracer
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


OVER_ITERATORS = {
    "accumulate": lambda numbers: itertools.accumulate(numbers),
    "chain": lambda numbers: itertools.chain(numbers, [7, 8]),
    "compress": lambda numbers: itertools.compress(numbers, [1] * 9),
    "cycle": lambda numbers: itertools.cycle(numbers),
    "dropwhile": lambda numbers: itertools.dropwhile(lambda number: number < 2, numbers),
    "filterfalse": lambda numbers: itertools.filterfalse(lambda number: number == 4, numbers),
    "groupby": lambda numbers: (key for key, _ in itertools.groupby(numbers)),
    "islice": lambda numbers: itertools.islice(numbers, 10),
    "islice with a step": lambda numbers: itertools.islice(numbers, 0, 10, 2),
    "pairwise": lambda numbers: itertools.pairwise(numbers),
    "starmap": lambda numbers: itertools.starmap(pow, zip(numbers, [1, 2, 3, 4, 5, 6, 7])),
    "takewhile": lambda numbers: itertools.takewhile(lambda number: number < 9, numbers),
    "tee": lambda numbers: itertools.tee(numbers)[0],
    "zip_longest": lambda numbers: itertools.zip_longest(numbers, [7, 8, 9]),
    "zip_longest, second": lambda numbers: itertools.zip_longest([7, 8, 9], numbers),
}
if hasattr(itertools, "batched"):
    OVER_ITERATORS["batched"] = lambda numbers: itertools.batched(numbers, 2)


@pytest.mark.parametrize("ends", [StopIteration, ValueError])
@pytest.mark.parametrize("kind", OVER_ITERATORS)
def test_an_iterator_that_gives_more_after_its_end_or_an_exception(kind, ends):
    class Numbers:
        def __init__(self, at):
            self.count, self.at = 0, at

        def __iter__(self):
            return self

        def __next__(self):
            self.count += 1
            if self.count == self.at:
                raise ends
            return self.count

    make = OVER_ITERATORS[kind]

    def fn(x, at):
        iterator, taken = make(Numbers(at)), []
        for _ in range(6):
            try:
                taken.append(next(iterator, "end"))
            except ValueError:
                taken.append("error")
        return x + 1, taken

    for at in (1, 2, 3):
        captured(fn, torch.ones(2), at)


BEGUN = {
    "accumulate": lambda: itertools.accumulate([1, 2, 3]),
    "accumulate, of None": lambda: itertools.accumulate([None, None, None], operator.is_),
    "accumulate, from the first": lambda: itertools.accumulate([1, 2, 3], initial=5),
    "dropwhile": lambda: itertools.dropwhile(lambda number: number < 3, [1, 5, 2, 6]),
    "takewhile": lambda: itertools.takewhile(lambda number: number < 3, [1, 2, 5, 1]),
}


@pytest.mark.parametrize("taken", [1, 2, 4])
@pytest.mark.parametrize("kind", BEGUN)
def test_an_iterator_that_has_begun_goes_on_behind_a_break(kind, taken):
    def fn(x):
        iterator = BEGUN[kind]()
        first = [next(iterator, "end") for _ in range(taken)]
        tracer.graph_break()
        return x + 1, first, list(iterator), type(iterator)

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # since Python 3.12 their state is deprecated
        check(fn, torch.ones(2))


def test_a_takewhile_that_has_ended_takes_no_more_items():
    def fn(x):
        numbers = iter([1, 5, 2])
        small = itertools.takewhile(lambda number: number < 3, numbers)
        first = list(small)
        tracer.graph_break()
        return x + 1, first, list(small), list(numbers)

    check(fn, torch.ones(2))
