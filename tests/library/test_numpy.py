"""NumPy's functions, traced and not: the same results, and most of them in one graph."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import breaks, captured

CAPTURED = """
abs(a); add(a, b); all(a); amax(a, 0); angle(a); any(a); append(a, b); arange(5); arctan2(a, b); argmax(a); argmin(a, 1)
around(a, 1); array([1.5, 2]); asarray(a); atleast_2d(a); average(a); bartlett(5); ceil(a); clip(a, 0, 2)
column_stack((a, b)); concatenate((a, b)); copysign(a, b); cos(a); cosh(a); count_nonzero(a); cross(a, b)
cumprod(a); cumsum(a, 1); deg2rad(a); diff(a); dot(a, b.T); einsum('ij,ij->i', a, b); equal(a, b); exp(a); exp2(a)
expand_dims(a, 0); expm1(a); eye(3); fabs(a); floor(a); floor_divide(a, b); fmax(a, b); fmod(a, b); full((2, 2), 3.0)
greater(a, b); heaviside(a, b); hstack((a, b)); hypot(a, b); inner(a, b); isclose(a, b); isfinite(a); isnan(a); kron(a, b)
linspace(0, 1, 4); log(b); log1p(b); logaddexp(a, b); logical_and(a, b); logical_not(a); matmul(a, b.T); max(a); maximum(a, b)
mean(a); min(a, axis=1); moveaxis(a, 0, 1); multiply(a, b); nan_to_num(a); negative(a); ones((2, 3)); ones_like(a)
power(b, 2); prod(a); ptp(a); ravel(a); reciprocal(b); repeat(a, 2); reshape(a, (3, 2)); roll(a, 1); round(a); sign(a)
sin(a); sinh(a); sort(a); split(a, 2); sqrt(b); square(a); squeeze(a); stack((a, b)); std(a); subtract(a, b); sum(a, axis=0)
swapaxes(a, 0, 1); take(a, 1); tan(a); tanh(a); tensordot(a, b); tile(a, 2); trace(a); transpose(a); tril(a); triu(a); trunc(a)
var(a); vdot(a, b); vstack((a, b)); where(a > 1, a, b); zeros((2,)); zeros_like(a); linalg.norm(a); linalg.det(s)
fft.fft(a); fft.rfft(a); fft.fftshift(a); sum(n); n.mean(); divide(n, 2); sqrt(n); power(n, 2)
"""
LEFT = """
flip(a); unique(n); nonzero(a); histogram(a); median(a); apply_along_axis(sum, 0, a); select([a > 1], [a]); bincount(n); cov(a)
diag(a); outer(a, b); pad(a, 1); argsort(a); linalg.inv(s)
"""
ARGS = {
    "a": np.linspace(-1.5, 1.5, 6).reshape(2, 3),
    "b": np.linspace(0.5, 3, 6).reshape(2, 3),
    "n": np.arange(4),
    "s": np.array([[2.0, 1.0], [0.5, 3.0]]),
}


def rows(text):
    return [row.strip() for line in text.splitlines() for row in line.split(";") if row.strip()]


def program(row):
    expression = row if row.startswith("n.") else f"np.{row}"
    return eval(f"lambda a, b, n, s: {expression}", {"np": np, "sum": np.sum})


@pytest.mark.parametrize("row", rows(CAPTURED))
def test_a_function_is_an_operation_of_the_graph(row):
    captured(program(row), *(ARGS[name] for name in "abns"))


@pytest.mark.parametrize("row", rows(LEFT))
def test_a_function_that_torch_does_otherwise_is_left_to_numpy(row):
    breaks(program(row), *(ARGS[name] for name in "abns"))
