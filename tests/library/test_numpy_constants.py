"""NumPy on constants: what it computes is known while tracing, as numbers, dtypes and arrays."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tracer
from tests.support import breaks, captured, check
from tests.support.comparing import Comparison

X = torch.arange(24.0).reshape(4, 6)

PROGRAMS = {
    "indices of a triangle": lambda x: x.numpy()[np.tril_indices(4)],
    "assignment through indices": lambda x: _filled_triangle(4) @ x.numpy().astype(np.float64),
    "an index of a tensor": lambda x: (x[np.array([0, 2])], x[:, np.array([[0, 1], [1, 2]])]),
    "a bound of a slice": lambda x: x[np.int64(0) : np.int64(2)],
    "cumulated bounds": lambda x: [x[:stop] for stop in np.cumsum([1, 1, 2])],
    "numbers of an array": lambda x: [x * float(value) * i for i, value in enumerate(np.linspace(0, 1, 3))],
    "a truth": lambda x: x if np.any(np.array([1, 0])) else x + 1,
    "functions that torch lacks": lambda x: (np.interp(0.5, [0, 1], [2, 3]), np.polyval([1, 2], 3), np.digitize([0.5], [0, 1])),
    "sorting": lambda x: x[np.argsort([3, 1, 2, 0])],
    "histograms": lambda x: (np.histogram(np.arange(5), bins=2), np.unique(np.array([1, 1, 2])), np.bincount([0, 1, 1])),
    "grids": lambda x: (np.mgrid[0:2, 0:3], np.r_[0:3, 5], np.c_[np.arange(2), np.arange(2)]),
    "lists": lambda x: (np.arange(4).tolist(), np.arange(3)[1].item()),
    "empty arrays": lambda x: np.zeros((2, 0)),
    "frequencies": lambda x: np.fft.fftfreq(6),
    "a product of sizes": lambda x: x.reshape(np.prod(x.shape)),
    "columns of an array": lambda x: x.numpy()[:, np.array([0, 2])],
    "columns by a mask": lambda x: np.arange(9.0).reshape(3, 3)[:, np.array([True, False, True])],
    "indices that are written down": lambda x: (x.numpy()[np.s_[0:2, 1]], np.index_exp[1:2], np.s_[1:3]),
    "one array given twice": lambda x: np.diag_indices(3),
    "rows of an array as bounds": lambda x: [x[tuple(slice(at, at + 2) for at in row)] for row in np.arange(6).reshape(3, 2)],
    "numbers of a view": lambda x: (
        x[np.arange(6).reshape(2, 3)[1][0] - 1],
        x * np.arange(4.0)[1:][0],
        x + np.eye(2, dtype=bool)[0, 1],
    ),
}


def _filled_triangle(n):
    made = np.zeros((n, n))
    made[np.tril_indices(n)] = 2.0
    return made


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_constants_is_whole(name):
    captured(PROGRAMS[name], X)


def test_an_array_that_is_written_to_is_not_known_any_more():
    def fn(x):
        numbers = np.arange(3.0)
        view = numbers[1:]
        view[0] = x.numpy()[0, 5]
        return numbers + 1, numbers.sum(), view

    captured(fn, X)


def test_a_view_is_not_known_any_more_where_the_array_is_written_to():
    def fn(x):
        numbers = np.arange(4)
        view = numbers[1:]
        first = x[: view[0]]
        numbers[1] = x.numpy()[0, 3]
        return first, view + 1, view

    captured(fn, X)


WRITES = {
    "a tensor in its memory": lambda array: torch.from_numpy(array).data.add_(1),
    "many tensors at once": lambda array: torch._foreach_add_([torch.from_numpy(array)], 1.0),
    "another array in its memory": lambda array: torch.as_tensor(array).numpy().__setitem__(0, 5),
    "out": lambda array: np.add(array, 1, out=array),
    "a method": lambda array: array.fill(7),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_write_to_the_memory_of_a_known_array_is_seen(name):
    def fn(x):
        array = np.arange(3.0)
        before = float(array.sum())
        WRITES[name](array)
        return x + before, array.sum(), array

    check(fn, X)


def test_an_array_computed_once_is_made_anew_by_each_call():
    compiled = tracer.optimize(fullgraph=True)(lambda x: (x + 1, np.arange(3)))
    first = compiled(X)[1]
    first[0] = 7
    assert compiled(X)[1].tolist() == [0, 1, 2]


ABOUT_DTYPES = {
    "issubdtype": lambda x: np.issubdtype(x.numpy().dtype, np.floating),
    "issubdtype of classes": lambda x: (np.issubdtype(np.int32, np.integer), np.issubdtype("f4", np.inexact)),
    "finfo": lambda x: (x.clamp(min=float(np.finfo(np.float32).min)), np.finfo("f8").eps, np.finfo(x.numpy().dtype).bits),
    "iinfo": lambda x: (x + np.iinfo(np.int32).max, np.iinfo(np.uint8).min),
    "dtype": lambda x: (np.dtype("i4").kind, np.dtype(np.float32).itemsize, np.dtype("float32") == np.float32),
    "a dtype as a key": lambda x: {np.dtype("float32"): torch.float32}[x.numpy().dtype],
    "the class of a dtype": lambda x: np.dtype("i8").type(3),
    "promotion": lambda x: (np.promote_types("f4", "f8"), np.result_type(np.float32, np.int64), np.can_cast("i4", "f8")),
    "promotion of arrays": lambda x: np.result_type(x.numpy(), 3.0),
    "bools": lambda x: x if np.bool_(True) else x + 1,
}


@pytest.mark.parametrize("name", ABOUT_DTYPES)
def test_a_question_about_a_dtype_is_answered_while_tracing(name):
    captured(lambda x: (x + 1, ABOUT_DTYPES[name](x)), X)


@pytest.mark.parametrize("cls", [np.integer, np.floating, np.generic])
def test_an_abstract_class_of_numbers_is_no_dtype(cls):
    with pytest.raises(TypeError, match="not allowed"):
        tracer.optimize(fullgraph=True)(lambda x: (np.dtype(cls), x + 1))(X)


LIMITS = np.finfo(np.float32)


def test_limits_that_the_program_holds_are_read():
    captured(lambda x: (x + float(LIMITS.max), LIMITS.dtype), X)


def test_a_scalar_of_numpy_gives_a_tensor_its_dtype():
    captured(lambda x: (torch.tensor(np.float64(3)), torch.tensor([np.int32(3)]), torch.asarray(np.float64(2)), x + 1), X)


OF_SIZES = {
    "view": lambda x: x.view(-1, np.prod(x.shape[1:])),
    "int": lambda x: x.reshape(int(np.prod(x.shape))),
    "operand": lambda x: x / np.prod(x.shape),
    "result": lambda x: (x + 1, np.prod(x.shape) * 2 + 1, np.sum(x.shape) // 2),
    "float": lambda x: (x + 1, float(np.prod(x.shape))),
    "branch": lambda x: (x + 1 if np.prod(x.shape) > 10 else x, np.prod(x.shape) > 10),
    "new tensor": lambda x: x.new_zeros(np.prod(x.shape), 2),
    "tensor of it": lambda x: torch.tensor(np.prod(x.shape)) + x,
}


@pytest.mark.parametrize("name", OF_SIZES)
def test_a_product_of_sizes_that_vary_serves_all_of_them(name):
    fn = OF_SIZES[name]
    compiled = tracer.optimize(fullgraph=True, dynamic=True)(fn)
    for shape in ((4, 6), (5, 7), (3, 9)):
        x = torch.ones(shape)
        expected, seen = fn(x), compiled(x)
        assert type(seen) is type(expected)
        for one, other in zip(*(value if isinstance(value, tuple) else (value,) for value in (expected, seen))):
            assert type(one) is type(other)
            assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
    assert len(tracer.region_of(compiled).entries()) == 1


def test_what_needs_more_of_the_number_than_its_value_fixes_it():
    compiled = tracer.optimize(fullgraph=True, dynamic=True)(lambda x: (x + 1, np.sqrt(np.prod(x.shape)), f"{np.prod(x.shape)}"))
    for shape in ((4, 6), (5, 7)):
        _, root, text = compiled(torch.ones(shape))
        assert root == np.sqrt(np.prod(shape)) and text == str(np.prod(shape))
    assert len(tracer.region_of(compiled).entries()) == 2


def test_dtypes_have_an_order():
    def fn(x):
        small, large = np.dtype("f4"), np.dtype("f8")
        order = small < large, large <= np.float32, small >= np.int8, small != large, small == "float32"
        return x + 1, order, np.float64(1.5).astype(np.int32), np.float32(2.5).astype("f8"), np.int64(3).astype(float)

    captured(fn, torch.ones(2))


def test_an_array_is_indexed_with_integers_of_numpy():
    def fn(a, i):
        made, start = a.copy(), np.int64(1)
        made[start] = 7.0
        made[np.int64(0), start + 1] = 9.0
        last = np.argmax(np.array([1, 3, 2]))
        return (
            made,
            a[start - 1],
            a[start : np.int64(3)],
            a[last],
            a[:, np.array([1, 3, 2]).sum() - 5],
            a[i],
            a[i:],
            a[np.prod(a.shape) // 12],
            (a.reshape(start + 1, -1), a.repeat(start + 1, 0), a.swapaxes(start - 1, start), a[[start, start + 1]]),
        )

    a = np.arange(12.0).reshape(4, 3)
    captured(fn, a, np.int64(2))
    run = tracer.compile(fn, fullgraph=True)
    for index in (np.int64(1), np.int64(2)):
        Comparison().same(run(a, index), fn(a, index), "result")


def test_what_a_number_of_numpy_is_itself():
    def fn(x):
        number = np.float32(2.5)
        return x + 1, number.real, number.imag, number.shape, number.size, number.is_integer(), np.float64(3).is_integer()

    captured(fn, torch.ones(2))


@pytest.mark.parametrize("value", [3.0, 2.5])
def test_whether_a_number_that_varies_is_an_integer_is_left_to_numpy(value):
    def fn(number):
        return number.is_integer(), number + 1

    check(fn, np.float64(value))


FLAG = np.bool_(True)
OF_BOOLS = {
    "operators": lambda x, flag: (x + flag, flag * x, x == flag, x**flag, x > flag),
    "functions": lambda x, flag: (torch.add(x, flag), torch.where(x > 1, x, flag), torch.full((2,), flag), x.clamp(min=flag)),
    "fills": lambda x, flag: (x.masked_fill(x > 1, flag), torch.zeros(2).fill_(flag)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.float16])
@pytest.mark.parametrize("name", OF_BOOLS)
def test_a_bool_of_numpy_is_a_float_to_torch(name, dtype):
    x = torch.arange(4).to(dtype)
    captured(lambda x: OF_BOOLS[name](x, np.bool_(True)), x)
    captured(lambda x: OF_BOOLS[name](x, FLAG), x)


def test_a_bool_of_numpy_cannot_be_stored_in_a_tensor():
    def fn(x):
        x[0] = np.bool_(True)

    breaks(fn, X)


def test_numbers_of_numpy_have_a_dtype():
    captured(lambda x: (x + 1, np.int64(3).dtype == np.dtype("i8"), np.float32(3).dtype, np.bool_(True).dtype), X)
