"""Operators of a tensor and an array, which torch leaves to NumPy."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import tracer
from tests.support import breaks, captured

X = torch.arange(6.0).reshape(2, 3) + 1
ROW = np.array([1.5, 2.0, 4.0])
WHOLE = np.array([3, 1, 2])

COMPUTED = {
    "a sum, of doubles": lambda x: x + ROW,
    "in the precision of the array": lambda x: x + ROW.astype(np.float32),
    "a difference": lambda x: x - WHOLE,
    "a product with an array that is computed": lambda x: x * (ROW * 2),
    "a quotient": lambda x: (x / ROW, x // ROW, x % ROW),
    "a power": lambda x: x**WHOLE,
    "a matrix product": lambda x: x.double() @ np.ones((3, 2)),
    "in place, which makes a new tensor": lambda x: _added(x, ROW),
    "of an integer tensor": lambda x: x.long() << WHOLE,
    "of a transposed tensor": lambda x: x.t() + np.ones((3, 2)),
    "of a tensor of no dims": lambda x: x.sum() + ROW,
}


def _added(x, row):
    before = y = x.clone()
    y += row
    return y, y is before


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", COMPUTED)
def test_the_result_is_a_tensor(name):
    captured(COMPUTED[name], X)


LEFT = {
    "an array and a tensor": lambda x: ROW + x,
    "a comparison": lambda x: x > ROW,
    "a tensor that requires a gradient": lambda x: x.requires_grad_() + ROW,
    "bools, which become small integers": lambda x: (x > 2) & (ROW > 2),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LEFT)
def test_what_fails_or_changes_its_kind_is_left_to_cpython(name):
    breaks(LEFT[name], X)


def test_a_program_that_turns_warnings_into_errors_meets_them():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        breaks(lambda x: x + ROW, X)


NUMBERS = {
    "float": lambda a: torch.ones(2) * float(a.sum()),
    "int of an integer": lambda a: torch.ones(3)[: int((a > 2).sum())],
    "int of a float": lambda a: torch.ones(2) * int(a.max()),
    "of an array of no dims": lambda a: torch.ones(2) * float(a.sum(keepdims=True).reshape(())),
    "of what is known": lambda a: (a + 1, float(np.arange(4).sum()), int(np.float32(2.5) * np.ones(()))),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_read_off_scalars_of_numpy(name):
    with tracer.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        captured(NUMBERS[name], np.arange(4.0))
