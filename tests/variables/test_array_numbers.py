"""Floats that vary, and floats that are drawn inside, as operands of NumPy's operations."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
from tests.support import captured


def seeded(fn):
    def run(x):
        np.random.seed(3)
        return fn(x)

    return run


def _scaled(x):
    drawn = np.random.uniform(0.5, 1.5)
    x *= drawn
    return x - drawn, drawn / (x + 1), -x * drawn, np.maximum(x, drawn), np.clip(x, drawn, 4.0)


def _compared(x):
    drawn = np.random.random() * 2
    return x <= drawn, np.where(x > drawn, x, drawn), np.full((2,), drawn)


def _rotated(x):
    angle = np.random.uniform() * 2 * np.pi
    cos, sin = np.cos(angle), np.sin(angle)
    return np.dot(x, np.array([[cos, 0, sin], [0, 1, 0], [-sin, 0, cos]]))


def _written(x):
    drawn = np.random.uniform(0.5, 2)
    x[0] = drawn
    x[1, 1:] += drawn
    return np.array([[drawn, 0.0], [0.0, drawn * 2]]) * x[:, :2]


@pytest.mark.parametrize("fn", [_scaled, _compared, _rotated, _written], ids=lambda fn: fn.__name__.strip("_"))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_drawn_float_is_an_operand_of_arrays(fn, dtype):
    captured(seeded(fn), np.arange(6, dtype=dtype).reshape(2, 3))


def test_a_drawn_float_makes_integers_floats():
    captured(seeded(lambda x: (x * np.random.uniform(0.5, 1.5), x > np.random.random())), np.arange(6).reshape(2, 3))


def test_a_float_that_varies_is_one_graph_for_all_its_values():
    graphs = []

    def keep(gm, example_inputs):
        graphs.append(gm)
        return gm

    def fn(x, number):
        return np.cos(number) * x, x <= number

    compiled, x = tracer.compile(fn, backend=keep), np.arange(6.0)
    for number in (1.5, 2.5, 3.5, 0.25):
        for got, expected in zip(compiled(x, number), fn(x, number)):
            assert np.array_equal(got, expected)
    assert len(graphs) == 2
