"""Scalars of NumPy that are arguments or attributes: numbers to Python and PyTorch, arrays without dims to NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import tracer
from tests.support import breaks, captured
from tests.support.comparing import Comparison

X = torch.arange(1.0, 13.0)

OF_ANY = {
    "product": lambda x, s: x * s,
    "reflected": lambda x, s: s - x,
    "power": lambda x, s: x**s,
    "bound": lambda x, s: x.clamp(max=s),
    "filled": lambda x, s: torch.full((2,), s, dtype=x.dtype),
    "float": lambda x, s: (x * float(s), s.item()),
    "int": lambda x, s: x[: int(s)] * round(s),
    "root": lambda x, s: x * math.sqrt(s),
    "branch": lambda x, s: x if s > 1 else -x,
    "truth": lambda x, s: x + 1 if s else x - 1,
    "smaller": lambda x, s: x * min(s, 9),
    "of_numpy_too": lambda x, s: (x * s, s + 1, np.floor(s)),
}
OF_INTS = {
    "size": lambda x, s: x.new_zeros(s, 2),
    "slice": lambda x, s: x[:s],
    "index": lambda x, s: x[s],
    "shape": lambda x, s: x.view(-1, 1).expand(-1, s),
}


def served(program, scalars, **settings):
    """How many entries serve calls with these scalars, each of which gives what the program does."""
    compiled = tracer.compile(program, fullgraph=True, **settings)
    for scalar in scalars:
        Comparison().same(program(X, scalar), compiled(X, scalar), "result")
    return compiled.stats()["compiles"]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("cls", [np.float64, np.float32, np.int64, np.int32])
@pytest.mark.parametrize("program", OF_ANY.values(), ids=OF_ANY)
def test_a_scalar_that_varies_is_symbolic_as_a_number_of_python_is(program, cls, backend):
    assert served(program, [cls(2 + k / 2) for k in range(0, 9, 2)], backend=backend) <= 2


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("cls", [np.int64, np.int16, np.uint8])
@pytest.mark.parametrize("program", OF_INTS.values(), ids=OF_INTS)
def test_an_integer_that_varies_says_sizes_and_places(program, cls, dynamic):
    assert served(program, [cls(k) for k in range(2, 8)], dynamic=dynamic) <= 2


def test_an_attribute_that_is_a_scalar_varies():
    class Scaled(torch.nn.Module):
        rate = np.float64(0.5)

        def forward(self, x):
            return x * self.rate

    module = Scaled()
    compiled = tracer.compile(module)
    for k in range(2, 8):
        module.rate = np.float64(k / 3)
        assert torch.equal(compiled(X), X * module.rate)
    assert compiled.stats()["compiles"] == 2


SCALARS = (np.float32(0.1), np.float64(0.1), np.float16(0.5), np.int64(2**53 + 1))


@pytest.mark.parametrize("scalar", SCALARS, ids=repr)
@pytest.mark.parametrize("number", [0.1, 0.5, 2**53, 2.0**53, 2**63, 2])
def test_a_comparison_rounds_as_numpy_does(scalar, number):
    def program(x, s):
        return (x + 1 if s > number else x - 1), s == number, s <= number

    compiled = tracer.compile(program)
    for _ in range(2):
        Comparison().same(program(X, scalar), compiled(X, scalar), "result")


def test_what_reads_the_digits_of_a_scalar_is_left_to_cpython():
    breaks(lambda x, s: (x + 1, f"{s:.3f}"), X, np.float64(0.5))


@pytest.mark.parametrize("scalar", [np.float64("nan"), np.float64(-0.0), np.float32("inf")], ids=repr)
def test_numbers_that_are_no_ordinary_ones_are_constants(scalar):
    captured(lambda x, s: (x * s, x + s.item()), X, scalar)


def test_a_complex_scalar_is_left_to_cpython_because_pytorch_drops_its_imaginary_part():
    with pytest.warns(np.exceptions.ComplexWarning):
        breaks(lambda x, s: x * s, X.to(torch.complex64), np.complex64(1 + 2j))


def test_a_bool_of_numpy_is_a_constant():
    captured(lambda x, s: (x + 1 if s else x - 1, x * s), X, np.bool_(True))


@pytest.mark.parametrize(
    "make", [np.float32, np.float16, lambda value: np.array(value, np.float32)], ids=["float32", "float16", "array"]
)
def test_a_number_of_python_is_rounded_to_the_dtype_of_what_it_stands_beside(make):
    def program(s, number):
        return (
            s == number,
            s > number,
            number < s,
            s + number,
            number - s,
            s / number,
            np.maximum(s, number),
            np.greater(s, number),
        )

    for value, number in ((0.1, 0.1), (0.3, 0.7), (1 / 3, 1e-3)):
        compiled = tracer.compile(program)
        Comparison().same(program(make(value), number), compiled(make(value), number), "result")
