"""Writes to an array of values that lie in its own memory: NumPy reads them before it writes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import captured, check


def _later(x):
    x[1:] = x[:-1]


def _earlier(x):
    x[:-1] = x[1:]
    x[:, 1:] = x[:, :-1]


def _transposed(x):
    x[:4] = x[:4].T


def _added(x):
    x[1:] += x[:-1]


def _row(x):
    x[np.array([2, 4])] = x[3]


@pytest.mark.parametrize("write", [_later, _earlier, _transposed, _added, _row], ids=lambda write: write.__name__.strip("_"))
def test_overlapping_values_are_read_before_they_are_written(write):
    def fn(x):
        write(x)
        return x + 1

    captured(fn, np.arange(24.0).reshape(6, 4))


def test_rows_at_places_that_data_decide_are_written_with_another_row():
    def fn(x):
        places = np.where(x[:, 0] > 7)[0]
        x[places, :] = x[0, :]
        return x * 1

    check(fn, np.arange(24.0).reshape(6, 4))


def test_a_part_that_is_changed_in_place_is_not_copied():
    def fn(x, n):
        x[1:n] += 1
        x[n:] -= x[n:]
        return x * 1

    graph = captured(fn, np.arange(24.0).reshape(6, 4), 3).graphs[0]
    assert not any("copy" in str(node.target) or "clone" in str(node.target) for node in graph.graph.nodes)
