"""Arrays in the memory of another: windows, strides, bytes; and what the flags of an array say."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.lib.stride_tricks import as_strided, sliding_window_view

from tests.support import breaks, captured, check

X = torch.arange(12.0).reshape(3, 4)


def test_windows_slide_over_the_memory_of_an_array():
    def f(x):
        a = x.numpy()
        some = sliding_window_view(a, (2, 2)), sliding_window_view(a, 3, axis=-1), sliding_window_view(a, (2, 2), axis=(1, 1))
        sliding_window_view(a[0], 2, writeable=True)[1] = 50
        windows = sliding_window_view(np.arange(5.0), 3)
        return x + 1, some, windows.mean(axis=-1), some[0].flags.writeable, torch.from_numpy(sliding_window_view(a[1], 2).copy())

    captured(f, X)


def test_windows_of_a_size_that_varies():
    checked = check(lambda x: torch.from_numpy(sliding_window_view(x.numpy(), x.shape[0] - 1).sum(1)), torch.ones(5))
    assert not checked.breaks


def test_strides_of_an_array_are_given():
    def f(x):
        a = x.numpy()
        step = a.strides[1]
        as_strided(a, (2,), (2 * step,))[:] = 9
        return x * 2, as_strided(a[1:], shape=(3, 2), strides=(step, step)), as_strided(a, (2, 4), (0, step)).sum(axis=0)

    captured(f, X)


def test_an_array_of_bytes_that_are_known():
    def f(x):
        numbers = np.frombuffer(b"\0\0\x80?\0\0\0@", dtype="<f4")
        letters = np.frombuffer(b"abcd", np.uint8, 2, 1)
        return x + float(numbers[1]), numbers, letters.tolist(), letters.flags.writeable, np.arange(6).reshape(2, 3).tobytes()

    captured(f, X)
    breaks(lambda x: x + torch.from_numpy(np.frombuffer(bytearray(b"abcd"), np.uint8)).sum(), X)
    breaks(lambda x: (x + 1, x.numpy().tobytes()), X)


def test_windows_and_bytes_that_do_not_fit():
    for wrong in (
        lambda x: sliding_window_view(x.numpy(), (9, 9)),
        lambda x: sliding_window_view(x.numpy(), 2),
        lambda x: np.frombuffer(b"abc", np.float32),
        lambda x: np.frombuffer(b"abcd", np.uint8).__setitem__(0, 1),
    ):

        def f(x, wrong=wrong):
            try:
                return wrong(x)
            except ValueError as error:
                return x + 1, str(error)

        check(f, X)


def test_flags_tell_the_layout():
    def told(array):
        flags = array.flags
        return flags.c_contiguous, flags["F_CONTIGUOUS"], flags.writeable, flags["C"], flags.forc, flags.fnc, flags.contiguous

    def f(x):
        a = x.numpy()
        others = a.T, a[:, ::2], a[:1], np.zeros((0, 3)), np.zeros(()), np.broadcast_to(a, (2, 3, 4))
        return x + 1, told(a), list(map(told, others))

    captured(f, X)
    breaks(lambda x: (x + 1, x.numpy().flags.owndata), X)


@pytest.mark.parametrize("fn", [lambda a: np.add.reduceat(a, [0, 2]), lambda a: np.compress([True, False, True], a)])
def test_functions_that_torch_lacks(fn):
    captured(lambda x: (x + 1, fn(x.numpy()), fn(np.arange(3))), torch.arange(4.0))


def test_functions_of_known_arrays():
    def f(x):
        counted = np.unique_counts(np.array([1, 1, 2])).counts if hasattr(np, "unique_counts") else None
        return x + 1, counted, np.format_float_positional(1.5), np.frexp(np.array([4.0])), np.nancumsum(np.array([1, 2]))

    captured(f, X)
