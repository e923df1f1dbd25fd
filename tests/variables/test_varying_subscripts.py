"""Subscripts with ints that vary: one entry serves all of them, of tensors and of NumPy's arrays."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import torch

import tracer
from tests.support import captured, check
from tests.support.comparing import Comparison, deep_copied


def one_entry_serves(program, make, backend="eager"):
    """For the first call, and one for all others."""
    traced = tracer.compile(program, backend=backend, fullgraph=True)
    for i in range(2, 8):
        theirs, ours = (deep_copied(make(i)) for _ in range(2))
        Comparison().same((program(*theirs), theirs), (traced(*ours), ours), "result")
    assert len(tracer.region_of(traced).entries()) <= 2


def two_columns(a, i, x):
    a[i, [0, 1]] = 2.0
    return x


BESIDE_OTHERS = {
    "a list": lambda a, i, x: a[i, [0, 1]] + a[[0, 1], i % 4],
    "a tensor": lambda a, i, x: a[torch.arange(2), i % 4] + a[i, torch.arange(2)],
    "dims between": lambda a, i, x: a.view(2, 5, 2, 4)[[0, 1], :, i % 2] + a.view(2, 5, 2, 4)[i % 2, :, [0, 1]].sum(),
    "a mask and an ellipsis": lambda a, i, x: a.view(2, 5, 2, 4)[i % 2, ..., x > 0],
    "a mask of two dims": lambda a, i, x: a.view(2, 5, 2, 4)[torch.ones(2, 5, dtype=torch.bool), i % 2, None],
    "a write": two_columns,
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", BESIDE_OTHERS)
def test_an_int_beside_tensors_and_lists(name, backend):
    one_entry_serves(BESIDE_OTHERS[name], lambda i: (torch.arange(80.0).view(20, 4), i, torch.tensor([1.0, 0, 2, 3])), backend)


def store(a, i, x):
    a[i] = x
    a[i, 1] += x[0]
    a[i, 2] = i
    a[:, i % 4] *= 2
    return a[i] + x, a[i, 0], type(a[i, 0]) is np.float64, a[i, ..., None], a[-i]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_rows_and_items_of_arrays(backend):
    one_entry_serves(store, lambda i: (np.arange(80.0).reshape(20, 4), i, np.arange(4.0)), backend)


class Buffer:
    def __init__(self, size):
        self.states, self.rewards = np.zeros((size, 4)), np.zeros((size, 1))
        self.at, self.filled, self.size = 0, 0, size

    def add(self, state, reward):
        self.states[self.at], self.rewards[self.at] = state, reward
        self.at, self.filled = (self.at + 1) % self.size, min(self.filled + 1, self.size)

    def sample(self, count):
        chosen = np.random.randint(0, self.filled, size=count)
        return torch.FloatTensor(self.states[chosen]), torch.Tensor(self.rewards[chosen])


def test_a_replay_buffer_is_filled_by_one_entry():
    theirs, ours = Buffer(7), Buffer(7)
    traced = tracer.compile(lambda x: (ours.add(x, x[0]), ours.sample(3)), fullgraph=True)
    for i in range(20):
        state = np.random.RandomState(i).randn(4)
        np.random.seed(i)
        theirs.add(state, state[0])
        expected = theirs.sample(3)
        np.random.seed(i)
        Comparison().same(expected, traced(state)[1], "sample")
    Comparison().same(vars(theirs), vars(ours), "buffer")
    assert len(tracer.region_of(traced).entries()) <= 3  # empty, filled further, and full


def test_the_row_of_an_array_is_a_view():
    def program(a, i):
        row = a[i]
        row += 1
        a[i, 0] = 9
        return row, a, np.shares_memory(row, a)

    for i in (1, 2, -3):
        check(program, np.arange(12.0).reshape(4, 3), i)
    for i in (1, 2, 3):
        captured(lambda a, i: (a[i, ::-1], a[::-1][i], a[i][::2], a[::2][i % 2]), np.arange(12.0).reshape(4, 3), i)
    captured(lambda a, i: (a[i], a[i + 1 :].sum()), np.arange(12.0).reshape(4, 3), 2)


def test_what_numpy_refuses_is_refused():
    def stored(a, i, x):
        a[i] = x
        return a

    traced = tracer.compile(stored)
    for i in (1, 2, 3, 5, -9):
        for array in (np.zeros(5), np.zeros((5, 2))):
            with pytest.raises(IndexError) if not -5 <= i < 5 else contextlib.nullcontext():
                assert traced(array, i, 1.0)[i].sum() == array[i].sum()
    fixed = np.zeros(5)
    fixed.flags.writeable = False
    for i in (1, 2, 3):
        with pytest.raises(ValueError, match="read-only"):
            traced(fixed, i, 1.0)
    for i in (1, 2, 3):
        check(stored, np.zeros(5), i, np.ones((1, 1)))


def test_an_array_of_constants_is_read_at_an_int_that_varies_by_one_entry():
    def program(x, i):
        return x * np.ones(9)[i], np.arange(9)[i]

    compiled = tracer.compile(program)
    for i in range(2, 8):
        Comparison().same(program(torch.ones(2), i), compiled(torch.ones(2), i), "result")
    assert len(tracer.region_of(compiled).entries()) <= 2
