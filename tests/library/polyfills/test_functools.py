"""The functions of functools that are replaced by plain Python: one graph, and what CPython's give."""

from __future__ import annotations

import functools

import pytest
import torch

from tests.support import captured

X = torch.ones(3)


class Counted:
    """An iterator that notes how often `iter` is called on it."""

    def __init__(self, log):
        self.log, self.left = log, 3

    def __iter__(self):
        self.log.append("iter")
        return self

    def __next__(self):
        self.left -= 1
        if self.left < 0:
            raise StopIteration
        return self.left


REDUCTIONS = {
    "of items": lambda: functools.reduce(lambda a, b: a * 10 + b, [1, 2, 3]),
    "with an initial value": lambda: functools.reduce(lambda a, b: a - b, (1, 2), 10),
    "of nothing, with an initial value": lambda: functools.reduce(lambda a, b: a, [], 10),
    "with an initial value that is None": lambda: functools.reduce(lambda a, b: (a, b), [1], None),
    "of one item": lambda: functools.reduce(lambda a, b: 1 / 0, [7]),
    "of nothing": lambda: functools.reduce(lambda a, b: a, []),
    "of what cannot be iterated": lambda: functools.reduce(lambda a, b: a, 3),
    "that fails": lambda: functools.reduce(lambda a, b: a // b, [1, 0]),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reduce_gives_and_raises_what_it_does_in_c(name):
    def fn(x):
        try:
            return x + 1, REDUCTIONS[name]()
        except Exception as error:
            return x + 2, type(error), str(error), error.__context__

    captured(fn, X)


def test_reduce_asks_for_an_iterator_once():
    def fn(x):
        log = []
        return x + functools.reduce(lambda a, b: a + b, Counted(log)), log

    captured(fn, X)


def test_tensors_are_reduced_in_the_graph():
    assert captured(lambda x: functools.reduce(torch.add, [x, x + 1, x + 2]), X).operations.count("add") == 4


class Measured:
    def __init__(self):
        self.asked = 0

    @functools.cached_property
    def size(self):
        self.asked += 1
        return self.asked * 10


def test_a_cached_property_is_worked_out_once_and_kept_in_the_dict():
    def fn(x):
        measured = Measured()
        return x + measured.size + measured.size, measured

    captured(fn, X)


def test_a_cached_property_is_itself_when_read_from_the_class():
    captured(lambda x: (x + 1, Measured.size is Measured.__dict__["size"]), X)


CACHES = {
    "of any size": functools.lru_cache(maxsize=None),
    "of two": functools.lru_cache(maxsize=2),
    "of none": functools.lru_cache(maxsize=0),
    "by type": functools.lru_cache(maxsize=2, typed=True),
}


@pytest.mark.parametrize("name", CACHES)
def test_a_cache_made_while_tracing_keeps_what_one_in_c_keeps(name):
    def fn(x):
        asked = []

        @CACHES[name]
        def ask(*args, **kwargs):
            asked.append((args, kwargs))
            return len(asked)

        given = [ask(1), ask(2), ask(1), ask(3), ask(2), ask(1.0), ask(True), ask(a=1), ask(1, 1), ask((1,)), ask("1"), ask(1)]
        return x + 1, given, asked

    captured(fn, X)
