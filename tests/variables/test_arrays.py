"""NumPy's arrays and scalars: traced as tensors in the same memory, with NumPy's own types, dtypes and sharing."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import tracer
from tests.support import breaks, captured, check
from tracer.api.callables import compiled
from tracer.api.settings import Settings

ROWS = np.arange(6.0).reshape(2, 3)


def ints(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape)).reshape(shape)


PROGRAMS = {
    "operators": lambda a: (a + 1, 2 * a, a / 3, a // 2, a % 2, -a, a**2, a > 2, a == 3, a @ a.T),
    "reductions": lambda a: (a.sum(), a.mean(axis=0), a.max(axis=1), np.std(a), np.sum(a, axis=0), a.all()),
    "functions": lambda a: (np.sin(a), np.where(a > 2, a, 0), np.clip(a, 1, 3), np.concatenate([a, a]), np.cumsum(a)),
    "shapes": lambda a: (a.T, a.reshape(3, 2), a.ravel(), a[None], np.expand_dims(a, 1), a.transpose(1, 0), a.copy()),
    "items": lambda a: (a[0], a[0, 1], a[:, 1], a[..., -1], a[1:, ::2]),
    "rows": lambda a: [row * 2 for row in a],
    "metadata": lambda a: (a + a.size, a.shape, a.ndim, a.strides, a.itemsize, a.nbytes, len(a), a.dtype == np.float64),
    "dtypes": lambda a: (a.astype(np.float32), a.astype(int), a.astype("float16"), np.ones_like(a, dtype=bool), a.sum().dtype),
    "created": lambda a: (a + 1, np.arange(3), np.zeros((2, 2), dtype=np.int32), np.linspace(0, 1, 5), np.array([1, 2])),
    "linalg and fft": lambda a: (np.linalg.norm(a, axis=0), np.fft.fft(a), np.linalg.det(a @ a.T)),
    "meshgrid": lambda a: np.meshgrid(a[0], a[1], indexing="ij"),
    "other views of the bytes": lambda a: (a.view(), a.view(np.int64), a.view(np.float32), a[0].view("int32")),
    "read-only results": lambda a: (a + 1, a.imag, np.broadcast_to(a, (4, 2, 3))),
}


REVERSED = {
    "computed with": lambda a: (
        a[:, ::-1] + 1,
        a[::-1].sum(),
        a[::-1] @ a.T,
        np.where(a[::-1] > 3, a, 0),
        np.concatenate([a[::-1], a]),
    ),
    "returned": lambda a: (a[::-1], a[..., ::-1], a[1, ::-1], a[::-1, 1:3], a[None, ::-1, ::2], (a + 1)[::-1]),
    "by name": lambda a: (np.flip(a), np.flip(a, 1), np.flip(a, axis=(0, -1)), np.flipud(a), np.fliplr(a)),
    "twice": lambda a: (a[::-1][::-1], a[::-1][:, ::-1], np.flip(a[::-1]), a[::-1][0], a[::-1, ::-1][:, 1]),
    "asked": lambda a: (
        a[::-1].shape,
        a[::-1].strides,
        a[::-1].dtype,
        a[::-1].nbytes,
        len(a[::-1]),
        [row * 2 for row in a[::-1]],
    ),
    "copied": lambda a: (
        a[::-1].copy(),
        np.ascontiguousarray(a[:, ::-1]),
        torch.from_numpy(a[::-1].copy()) + 1,
        np.sort(a[:, ::-1]),
    ),
}


@pytest.mark.parametrize("name", REVERSED)
def test_a_view_with_negative_strides_is_traced(name):
    captured(REVERSED[name], ROWS)


def test_a_reversed_view_shows_what_is_written_to_the_array_later():
    def fn(a):
        view = a[::-1]
        before = view * 1
        a += 1
        return before, view * 1, view

    captured(fn, ROWS)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.full)])
def test_reversed_views_follow_sizes_that_vary(backend):
    def fn(x):
        a = x.numpy()
        return torch.from_numpy(np.flip(a, 0) * a), torch.from_numpy(np.ascontiguousarray(a[:, ::-1]))

    compiled_fn = tracer.compile(fn, backend=backend, fullgraph=True)
    for rows_of_x in (4, 6, 7, 9):
        x = torch.randn(rows_of_x, 5)
        assert all(map(torch.equal, compiled_fn(x), fn(x)))


def _written(a):
    view = a[::-1]
    view[0] = 7
    return view


def _added_to(a):
    view = a[::-1]
    view += 1
    return a


def _output(a):
    np.add(a, 1, out=a[::-1])
    return a


def _viewed(a):
    view = a[::-1].T
    a += 1
    return view


@pytest.mark.parametrize("fn", [_written, _added_to, _output, _viewed, lambda a: torch.tensor(a[::-1])])
def test_what_writes_to_a_reversed_view_or_views_it_again_is_left_to_numpy(fn):
    breaks(fn, ROWS)


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_array_is_traced(name):
    captured(PROGRAMS[name], ROWS)


def test_an_array_of_integers_is_traced():
    captured(lambda a: (a + 1, a / 2, a.sum(), a // 2, a.mean(), a << 1, np.take(a, 1)), ints(2, 3))


def test_what_numpy_gives_as_a_scalar_is_one():
    result = captured(lambda a: (a.sum(), a[0, 0], a.sum() / len(a)), ROWS).result
    assert [type(value) for value in result] == [np.float64] * 3


def test_an_array_changed_in_place_is_changed_for_everyone():
    def fn(a, seen):
        b = a[0]
        a += 1
        a[1] = b
        np.multiply(a, 2, out=a)
        seen.append(a)
        return b

    captured(fn, ROWS, [])


def test_a_scalar_read_before_a_change_keeps_its_value():
    def fn(a):
        first = a[0, 0]
        kept = [value for value in a[0]]
        a += 1
        return first, kept

    captured(fn, ROWS)


def test_an_array_given_twice_is_one_object():
    def fn(a, b):
        a += 1
        return a is b, b * 2

    traced = compiled(fn, Settings(backend="eager"))
    for args in ((ROWS.copy(), ROWS.copy()), (array := ROWS.copy(), array)):
        expected_args = (args[0].copy(),) * 2 if args[0] is args[1] else tuple(arg.copy() for arg in args)
        expected, seen = fn(*expected_args), traced(*args)
        assert seen[0] is expected[0]
        assert np.array_equal(seen[1], expected[1])


def test_a_view_into_an_array_shares_its_memory():
    def fn(a, b):
        a *= 2
        return b + 1

    traced = compiled(fn, Settings(backend="eager"))
    array, other = ROWS.copy(), ROWS.copy()
    assert np.array_equal(traced(array, array[0]), fn(other, other[0]))


def test_arrays_and_tensors_share_memory_in_both_directions():
    def fn(x):
        a = x.numpy()
        a += 1
        back = torch.from_numpy(a)
        back *= 2
        return x + back, a

    captured(fn, torch.ones(3))


def test_from_numpy_gives_a_new_tensor():
    def fn(x):
        y = torch.from_numpy(x.numpy())
        y.add_(1)
        return y is x, y

    captured(fn, torch.ones(3))


def test_tensors_are_made_of_arrays():
    captured(lambda a: (torch.tensor(a), torch.as_tensor(a), torch.tensor(a, dtype=torch.float32)), ROWS)


def test_a_numpy_of_a_tensor_that_requires_a_gradient_is_numpys_error():
    check(lambda x: (x * 2).numpy(), torch.ones(2, requires_grad=True))
    captured(lambda x: (x * 2).numpy(force=True), torch.ones(2, requires_grad=True))


@pytest.mark.parametrize("scalar", [np.float64(1.5), np.float32(0.1), np.int64(3)])
def test_beside_a_tensor_a_scalar_is_a_number(scalar):
    captured(lambda x, i, s: (x + s, s * x, i * s, torch.add(x, s), x > s), torch.ones(3), torch.arange(3), scalar)


def test_scalars_alone_are_computed_in_the_graph():
    checked = captured(lambda s, x: (s + 1, s * 2.5, x * 2), np.int64(3), torch.ones(2))
    assert [type(value) for value in checked.result[:2]] == [np.int64, np.float64]


def test_other_scalars_need_no_new_graph():
    graphs = []
    traced = compiled(lambda x, s: (x * 2, s / 2), Settings(backend=lambda gm, _: graphs.append(gm) or gm.forward))
    for value in range(4):
        assert traced(torch.ones(2), np.int64(value))[1] == np.int64(value) / 2
    assert len(graphs) == 1


def test_functions_of_constants_are_done_now():
    checked = captured(lambda x: x / np.sqrt(64) + np.pi + np.float32(2), torch.ones(3))
    assert checked.operations == ["truediv", "add", "add"]


def test_sizes_of_arrays_become_dynamic():
    graphs = []
    traced = compiled(lambda a: a.sum(axis=0) * a.shape[0], Settings(backend=lambda gm, _: graphs.append(gm) or gm.forward))
    for size in (2, 3, 4, 7):
        array = np.ones((size, 3))
        assert np.array_equal(traced(array), array.sum(axis=0) * size)
    assert len(graphs) == 2


def test_another_dtype_is_another_graph():
    traced = compiled(lambda a: a / 2, Settings(backend="eager"))
    for dtype in (np.float64, np.float32, np.int32, np.float16):
        array = np.ones(3, dtype)
        assert traced(array).dtype == (array / 2).dtype


def test_arrays_that_torch_cannot_share_are_left_to_numpy():
    traced = compiled(lambda a: a + 1, Settings(backend="eager"))
    read_only = ROWS.copy()
    read_only.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for array in (ROWS, ROWS[::-1], read_only, ROWS.astype(">f8"), ROWS.astype(object), ROWS.astype(np.uint16)):
            assert np.array_equal(traced(array), array + 1)


READ_ONLY = np.arange(3.0)
READ_ONLY.flags.writeable = False


def test_an_array_that_is_read_only_shares_its_memory_with_the_graph():
    def program(x, spread):
        return x.numpy() + READ_ONLY, READ_ONLY[1:], spread * 2, spread.T, READ_ONLY.copy(), torch.from_numpy(READ_ONLY.copy())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        captured(program, torch.ones(2, 3), np.broadcast_to(np.ones((2, 1)), (2, 3)))
    traced = compiled(lambda a: (a, a + 1), Settings(backend="eager", fullgraph=True))
    assert traced(READ_ONLY)[0] is READ_ONLY and not READ_ONLY.flags.writeable
    assert traced(READ_ONLY.copy())[0].flags.writeable


def test_a_write_to_an_array_that_is_read_only_is_left_to_numpy():
    def program(x):
        try:
            READ_ONLY[0] = 3
        except ValueError as error:
            return x + 1, str(error)

    breaks(program, torch.ones(2))
    traced = compiled(lambda a: a.__setitem__(0, 7.0), Settings(backend="eager"))
    written = np.zeros(3)
    traced(written)
    with pytest.raises(ValueError, match="read-only"):
        traced(READ_ONLY)
    assert written[0] == 7 and READ_ONLY[0] == 0


LEFT_TO_NUMPY = {
    "an array and a tensor": lambda a: a + torch.ones(2, 3),
    "data for Python": lambda a: (a * 2).tolist(),
    "a branch on data": lambda a: a + 1 if a.any() else a,
    "a shape that depends on data": lambda a: np.unique(a),
    "no such function in torch": lambda a: np.piecewise(a, [a > 0], [lambda part: part * 2, 0]),
    "random numbers": lambda a: a.shape[0] + np.random.RandomState([1, 2]).rand(2),
    "a function of a tensor": lambda a: np.sin(torch.ones(2)) + 1,
    "no such attribute": lambda a: (a + 1).flags.owndata,
}


@pytest.mark.parametrize("name", LEFT_TO_NUMPY)
def test_what_torch_does_otherwise_breaks_the_graph(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        breaks(LEFT_TO_NUMPY[name], ROWS)


def test_numpys_error_settings_are_guarded():
    traced = compiled(lambda a: np.log(a), Settings(backend="eager"))
    zeros = np.zeros(2)
    with np.errstate(all="ignore"):
        traced(zeros)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        traced(zeros)


def test_a_division_by_zero_gives_what_numpy_gives():
    with np.errstate(all="ignore"):
        captured(lambda a: (a / 0, a.astype(int) // 1), ROWS)
        check(lambda a, b: a // b, ints(3), np.zeros(3, int))


def test_arrays_live_across_a_break():
    def fn(a):
        b = a * 2
        print(end="")
        b += a
        return b, a

    assert len(breaks(fn, ROWS).graphs) == 2


def test_an_iterator_over_an_array_lives_across_a_break():
    def fn(a):
        rows = iter(a * 2)
        first = next(rows)
        print(end="")
        return first, next(rows) + 1, list(rows)

    breaks(fn, ROWS)


def test_errors_of_numpy_are_numpys_own():
    check(lambda a: a + np.ones(5), ROWS)
    check(lambda a: a[7] + 1, ROWS)
    check(lambda a: len(a.sum()), ROWS)


def test_functions_of_numpy_that_take_tensors_as_arrays_are_traced():
    captured(lambda x: (np.ones_like(x, dtype=np.float64), np.zeros_like(x * 2)), torch.ones(2, 3))


def test_elements_are_captured_where_the_graph_must_not_break():
    def program(a):
        return (a * 2).tolist(), a[0, 1].item() + 1

    assert compiled(program, Settings(fullgraph=True))(ROWS) == program(ROWS)


@pytest.mark.parametrize("given", [ROWS, ROWS.sum(), torch.ones(2)], ids=["array", "scalar", "tensor"])
def test_what_a_class_has_of_its_own_class_is_no_attribute_of_an_object(given):
    def f(value):
        return value + 1, hasattr(value, "__call__"), hasattr(value, "mro"), hasattr(value, "sum")

    check(f, given)


def test_numpy_computes_what_torch_gives_a_dtype_for_that_numpy_lacks():
    assert not check(lambda a: a * 1j, np.ones(3, np.float16)).breaks


def test_a_tensor_of_an_array_is_made_with_the_dtype_and_device_of_another():
    array = np.arange(3)

    def fn(x):
        made = x.new_tensor(array), x.new_tensor(array, dtype=torch.float64), torch.tensor(array, device=x.device)
        return x + made[0], made, torch.as_tensor(array, device="cpu")

    assert not check(fn, torch.ones(3)).breaks
