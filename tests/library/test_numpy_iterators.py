"""NumPy's iterators over indices and items, and functions that call a function for each item or row."""

from __future__ import annotations

import numpy as np
import torch

from tests.support import breaks, captured, check

X = torch.arange(6.0).reshape(2, 3)


@np.vectorize
def shifted(value, by=1):
    return value + by


def test_indices_of_a_shape():
    def fn(x):
        out = torch.zeros_like(x)
        for index in np.ndindex(x.shape):
            out[index] = x[index] * 2
        it = np.ndindex(2, 1)
        first = next(it)
        return out, first, list(it), list(np.ndindex()), list(np.ndindex(2, 0)), sum(i * j for i, j in np.ndindex(*x.shape))

    captured(fn, X)


def test_indices_and_items_of_an_array():
    def fn(x):
        total = 0.0
        for (row, column), value in np.ndenumerate(x.numpy()):
            total = total + value * row + column
        known = [(index, int(value)) for index, value in np.ndenumerate(np.arange(4).reshape(2, 2))]
        return torch.as_tensor(total), known, [index for index, _ in np.ndenumerate(np.float64(3.0))]

    captured(fn, X)


def test_the_flat_iterator_of_an_array():
    def fn(x):
        array = x.numpy()
        flat = array.T.flat
        items = [flat[0], flat[-2], flat[4], array.flat[1:3], len(flat), flat.coords]
        second = (next(flat), next(flat))[1]
        array.flat[4] = 9
        return x, items, second, flat.index, flat.coords, sum(array.T.flat), list(np.arange(3).flat), np.asarray(2).flat[0]

    captured(fn, X)
    check(lambda x: x.numpy().flat, X)
    check(lambda x: (x + 1, x.numpy().flat[7]), X)
    breaks(_fill, X)


def _fill(x):
    x.numpy().flat[:4] = [1, 2]  # which is repeated
    return x + 1


def test_functions_of_numbers_over_arrays_that_are_known():
    def fn(x):
        scaled = np.vectorize(lambda value, by: value * by, otypes=[np.float32])
        both = np.vectorize(lambda value: (value + 1, value / 2), cache=True)
        made = scaled(np.arange(3), 2), both(np.arange(4).reshape(2, 2)), shifted(np.arange(3)), shifted(np.arange(3), by=3)
        return x * torch.from_numpy(made[0]), made, shifted(2), np.vectorize(lambda a: a, otypes="d")(np.array([]))

    captured(fn, X)


def test_how_often_the_function_is_called():
    def fn(x):
        seen, cached = [], []
        np.vectorize(lambda value: seen.append(type(value)) or 1)(np.arange(2))
        np.vectorize(lambda value: cached.append(value) or 1, cache=True)(np.arange(2))
        try:
            np.vectorize(lambda value: value)(np.array([]))
        except ValueError as error:
            return x + 1, seen, len(cached), str(error)

    captured(fn, X)


def test_functions_of_indices_and_rows():
    def fn(x):
        made = np.fromfunction(lambda i, j: i * 10 + j, (2, 3))
        array = x.numpy()
        rows = np.apply_along_axis(np.sum, 1, array), np.apply_along_axis(lambda row: row[::2] * 2, 0, array)
        added = np.apply_along_axis(lambda row, by: row + by, -1, array, 3)
        return x + torch.from_numpy(made), rows, rows[1].shape, added, np.iterable(array), np.iterable(3)

    captured(fn, X)
    check(lambda x: np.apply_along_axis(lambda row: np.outer(row, row), 0, x.numpy()), X)
    check(lambda x: (x + 1, np.apply_along_axis(np.sum, 1, x.numpy()[:0])), X)
    check(lambda x: (x + 1, np.apply_along_axis(np.sum, 5, x.numpy())), X)


def test_a_function_of_numbers_over_data_breaks():
    breaks(lambda x: torch.from_numpy(shifted(x.numpy())), X)
