"""Places of an array's elements, and arrays that are turned."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
from tests.support import captured

A = np.array([[0.0, 2.0, 0.0, 4.0], [1.0, 0.0, 0.0, 3.0], [0.0, 0.0, 5.0, 0.0]])
FOUND = {
    "nonzero": lambda a: np.nonzero(a > 1),
    "the method": lambda a: a.nonzero(),
    "where": lambda a: np.where(a > 1),
    "argwhere": lambda a: np.argwhere(a > 1),
    "of three dims": lambda a: (np.nonzero(a.reshape(3, 2, 2)), np.argwhere(a.reshape(3, 2, 2))),
    "of one dim": lambda a: (np.nonzero(a[0]), np.argwhere(a[0])),
    "of a reversed array": lambda a: np.nonzero(a[::-1]),
    "as an index": lambda a: a[np.nonzero(a > 1)] * 2,
    "nowhere": lambda a: (np.nonzero(a > 9)[1] + 1, np.argwhere(a > 9).shape),
    "written to": lambda a: _written(np.nonzero(a > 1)),
}


def _written(places):
    rows, columns = places
    rows += 1
    return rows, columns, rows.strides


@pytest.mark.parametrize("name", FOUND)
def test_places_are_found_as_numpy_finds_them(name):
    with tracer.config.patch(capture_dynamic_output_shape_ops=True):
        captured(FOUND[name], A)


TURNED = {
    "once": lambda a: np.rot90(a),
    "several times": lambda a: (np.rot90(a, 2), np.rot90(a, 3), np.rot90(a, 4), np.rot90(a, -1)),
    "in other axes": lambda a: (
        np.rot90(a, axes=(1, 0)),
        np.rot90(a.reshape(3, 2, 2), 1, (0, 2)),
        np.rot90(a.reshape(3, 2, 2), 3, (2, 1)),
    ),
    "twice": lambda a: (np.rot90(np.rot90(a)), np.rot90(np.rot90(a, 3), 3), np.rot90(a[:, ::-1])),
    "and copied": lambda a: np.ascontiguousarray(np.rot90(a)) + 1,
    "its memory is the array's": lambda a: (np.rot90(a), a.__setitem__((0, 0), 7.0), a),
}


@pytest.mark.parametrize("name", TURNED)
def test_arrays_are_turned(name):
    captured(TURNED[name], A)
