"""NumPy's functions, traced and not: the same results, and most of them in one graph."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import tracer
from tests.support import breaks, captured, captured_made, check
from tests.support.comparing import Comparison

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
BY_NUMPY = """
histogram(a); median(a); select([a > 1], [a]); cov(a); outer(a, b); pad(a, 1); argsort(a); linalg.inv(s); linalg.svd(a)
linalg.eigh(s); interp(a, [0, 2], [1, 5]); digitize(a, [0, 1]); isin(n, [1, 2]); block([a, b]); quantile(a, 0.3)
delete(a, 0, axis=1); sum(a, where=b > 1); nanmean(a, axis=0); polyval([1, 2], a); n.argsort()
add.reduce([a, b]); minimum.reduce([a, b])
"""
UFUNC_METHODS = """
add.reduce(a); add.reduce(a, axis=1, keepdims=True); add.reduce(a, axis=None); maximum.reduce(a); logical_or.reduce(a > 0)
multiply.reduce(a, 1); add.accumulate(a); multiply.accumulate(a, 1); subtract.outer(n, a); maximum.outer(n, 2.0)
where(a > 1, 1.0, -1.0); where(a > 1, 1.0, 2); where(a > 1, 1j, 0); where(a > 1, True, 1.5); where(a > 1, a, 0.0)
where(a > 1, 1, 0)
"""
LEFT = """
unique(n); nonzero(a); piecewise(n, [n > 1], [1, 0]); bincount(n); diag(a); array_equal(a, b)
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


@pytest.mark.parametrize("row", rows(CAPTURED + UFUNC_METHODS))
def test_a_function_is_an_operation_of_the_graph(row):
    captured(program(row), *(ARGS[name] for name in "abns"))


@pytest.mark.parametrize("row", rows(BY_NUMPY))
def test_a_function_that_torch_lacks_or_does_otherwise_is_a_call_of_numpy_in_the_graph(row):
    captured(program(row), *(ARGS[name] for name in "abns"))


@pytest.mark.parametrize("row", rows(LEFT))
def test_what_depends_on_data_or_is_a_view_that_torch_lacks_is_left_to_numpy(row):
    breaks(program(row), *(ARGS[name] for name in "abns"))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.full)])
@pytest.mark.parametrize("dynamic", [None, True])
def test_calls_of_numpy_follow_sizes_that_vary_under_every_backend(backend, dynamic):
    def f(x):
        a = x.numpy()
        return torch.from_numpy(np.argsort(-a, axis=1)) * 2, torch.from_numpy(np.median(a, axis=0)) + x

    compiled = tracer.compile(f, backend=backend, fullgraph=True, dynamic=dynamic)
    for rows_of_x in (4, 6, 7, 9):
        x = torch.randn(rows_of_x, 5)
        assert all(map(torch.allclose, compiled(x), f(x)))
    assert len(tracer.region_of(compiled).entries()) == (1 if dynamic else 2)


def test_what_numpy_sizes_by_data_enters_a_whole_graph():
    def f(x):
        a = x.numpy()
        return torch.from_numpy(np.unique(a)) + 1, torch.from_numpy(a[a > 1]), np.nonzero(a > 1)[0].sum()

    compiled = tracer.compile(f, fullgraph=True)
    for data in ([1.0, 2.0, 1.0], [3.0, 4.0, 5.0], [0.0, 0.0, 0.0]):
        (one, two, three), (a, b, c) = compiled(torch.tensor(data)), f(torch.tensor(data))
        assert torch.equal(one, a) and torch.equal(two, b) and three == c
    assert len(tracer.region_of(compiled).entries()) == 1


def test_a_call_that_numpy_refuses_raises_its_error_at_the_line_of_the_program():
    compiled = tracer.compile(lambda x: torch.from_numpy(np.linalg.inv(x.numpy())))
    assert torch.equal(compiled(torch.eye(2)), torch.eye(2))
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        compiled(torch.zeros(2, 2))


def test_other_results_than_the_trials_gave_are_left_to_numpy():
    """An index of 3 never comes in the trials, where integers are below 3."""

    def f(n):
        return torch.from_numpy(np.bincount(n.numpy(), minlength=3)) * 2

    compiled = tracer.compile(f)
    for data in ([0, 1, 2], [0, 3, 1], [5, 5, 5], [2, 2, 0]):
        assert torch.equal(compiled(torch.tensor(data)), f(torch.tensor(data)))


def test_ufuncs_add_at_indices_in_place():
    def f(a, n):
        np.add.at(a, (n[:2], n[:2]), 1.5)
        np.add.at(a, ([0, 0], [1, 1]), 1.0)
        return a * 2

    captured(f, ARGS["a"], ARGS["n"])


def test_structured_dtypes_break_the_graph_cleanly():
    def f(x):
        records = np.zeros(3, dtype=[("a", np.float32), ("b", np.int64)])
        records["a"] = 1.5
        return x + torch.from_numpy(records["a"].copy())

    breaks(f, torch.ones(3))
    with pytest.raises(tracer.exc.Unsupported) as error:
        tracer.compile(f, fullgraph=True)(torch.ones(3))
    assert type(error.value) is tracer.exc.Unsupported


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("stops", [False, True])
def test_a_block_of_np_errstate_is_entered_where_the_graph_breaks_inside(stops):
    def f(x, seen):
        a = x.numpy()
        with np.errstate(all="ignore"), np.errstate(divide="warn") as entered:
            b = np.median(np.log(a)) / a
            if stops:
                tracer.graph_break()
                seen.append(np.geterr())
        return torch.from_numpy(np.nan_to_num(b)), entered

    (check if stops else captured)(f, torch.arange(4.0), [])


def test_numpy_reports_in_the_graph_what_the_program_lets_it_report():
    def f(x):
        with np.errstate(divide="ignore"):
            quiet = np.median(1 / x.numpy())
        return torch.from_numpy(np.interp(x.numpy(), [0, 1], [0, 1])) + quiet

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(tracer.compile(f, fullgraph=True)(torch.zeros(2)), f(torch.zeros(2)))


def test_errors_that_np_errstate_asks_for_are_raised():
    def f(x):
        try:
            with np.errstate(divide="raise"):
                return torch.from_numpy(1 / x.numpy())
        except FloatingPointError:
            return x - 1

    breaks(f, torch.zeros(2))


def test_an_array_that_is_read_only_becomes_a_tensor_with_torchs_warning():
    def f(x):
        a = x.numpy()
        return torch.from_numpy(a.imag) + 1, torch.from_numpy(np.broadcast_to(a, (2, 3, 4)))

    captured(f, torch.ones(3, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch may have warned before: then nothing is raised
        breaks(f, torch.ones(3, 4))


def test_a_size_that_numpy_rounds_is_an_int_of_sizes_that_vary():
    def f(x):
        chunk, below = int(np.ceil(x.shape[0] / 4)), int(np.floor(x.shape[0] / -4))
        return [part * chunk for part in x.split(chunk)], below, int(np.trunc(x.shape[0] / -4)), np.ceil(x.shape[0] / 4)

    compiled = tracer.compile(f, fullgraph=True, dynamic=True)
    for n in (13, 14, 19):
        x = torch.randn(n)
        (parts, *numbers), (expected, *others) = compiled(x), f(x)
        assert all(map(torch.equal, parts, expected)) and len(parts) == len(expected)
        assert numbers == others and list(map(type, numbers)) == list(map(type, others))
    assert len(tracer.region_of(compiled).entries()) == 1


def test_what_else_is_done_with_a_rounded_size_is_done_with_its_value():
    def f(x):
        rounded, zero = np.ceil(x.shape[0] / 8), np.ceil(x.shape[0] / -100)
        ints = torch.ones(2, dtype=torch.int64)
        found = ints * rounded, rounded + 1, 2 - rounded, rounded > 1, -rounded, round(rounded), float(rounded), {rounded: 1}
        return x + rounded, np.copysign(1.0, zero), rounded.item(), rounded.dtype, bool(zero), f"{rounded}", found

    check(f, torch.randn(13), dynamic=True)


@pytest.mark.parametrize(
    "of_a_row", [np.argsort, np.fft.ifft, lambda row: np.partition(row, 1), lambda row: np.array([row, row])]
)
def test_numpy_is_called_with_a_view_whose_memory_has_sizes_of_its_own(of_a_row):
    def fn(a):
        return of_a_row(a[0])

    compiled = tracer.compile(fn, dynamic=True, fullgraph=True)
    for rows in (3, 5):
        array = np.random.default_rng(0).random((rows, 4))
        Comparison().same(fn(array), compiled(array), "result")
    assert len(tracer.region_of(compiled).entries()) == 1


def test_columns_chosen_by_an_array_that_varies_lie_as_numpy_leaves_them():
    def columns(a, i):
        return a[:, i]

    compiled = tracer.compile(columns, dynamic=True, fullgraph=True)
    for rows, chosen in ((3, 2), (5, 3), (6, 4)):
        array, index = np.random.default_rng(0).random((rows, 4)), np.arange(chosen)
        expected, seen = columns(array, index), compiled(array, index)
        Comparison().same(expected, seen, "result")
        assert expected.strides == seen.strides
    assert len(tracer.region_of(compiled).entries()) == 1


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_array_that_numpy_gives_twice_is_one_object(dynamic):
    captured_made(lambda a: np.diag_indices(a.shape[0]), lambda: ((np.ones((4, 4)),), {}), dynamic=dynamic)


def test_builtins_of_arrays():
    captured(lambda x: (abs(x.numpy() - 2), divmod(x.numpy(), 2), divmod(7, x.numpy() + 1)), torch.arange(4.0))
