"""Floats that vary, and floats that are drawn inside, as operands of NumPy's operations."""

from __future__ import annotations

import numpy as np
import pytest
import torch

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


def graphs_of(fn, calls, between=lambda: None):
    """The graphs that calls make, each of which gives what `fn` gives."""
    graphs = []

    def keep(gm, example_inputs):
        graphs.append(gm)
        return gm

    compiled = tracer.compile(fn, backend=keep)
    for args in calls:
        for got, expected in zip(compiled(*args), fn(*args)):
            assert np.array_equal(got, expected)
        between()
    return graphs


def test_a_float_that_varies_is_one_graph_for_all_its_values():
    graphs = graphs_of(lambda x, number: (np.cos(number) * x, x <= number), [(np.arange(6.0), 1.5 + i) for i in range(4)])
    assert len(graphs) == 2


class Scaled(torch.nn.Module):
    def __init__(self, gain=np.sqrt(2)):
        super().__init__()
        self.gain, self.width = gain, np.int64(3)

    def forward(self, x):
        gain = float(self.gain)
        if gain != 1 and self.gain > 1:
            x = x * gain + self.gain
        return x.clamp(-self.gain, self.gain), x[: self.width], f"{self.gain:.2f}"


def test_a_number_of_numpy_that_the_program_keeps_is_a_constant():
    captured(Scaled(), torch.ones(4))


def test_a_kept_number_of_numpy_that_varies_is_an_input():
    module = Scaled()
    graphs = graphs_of(
        lambda x: x * module.gain - module.gain, [(torch.ones(3),)] * 4, lambda: setattr(module, "gain", module.gain + 1)
    )
    assert len(graphs) == 2


def test_a_float_of_numpy_is_an_operand_of_tensors_without_a_graph_for_each_value():
    def fn(x, number):
        return x * number, number / x, number - x, np.sqrt(number) / x

    graphs = graphs_of(fn, [(torch.arange(1.0, 4.0), np.float64(1.3 + i)) for i in range(4)])
    assert len(graphs) == 2


def test_a_float_of_numpy_that_is_an_exponent_gives_the_last_bit_of_eager_mode():
    captured(lambda x, number: x**number, torch.arange(1.0, 40.0) / 7, np.float64(2.0))
