"""Parameters that are plain ints to PyTorch may be sizes that vary: one graph, with eager's results, strides and errors."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import tracer
from tests.support.comparing import Comparison, deep_copied
from tests.support.outcomes import outcome

SHAPES = ((2, 4, 7, 5), (3, 4, 8, 6), (2, 4, 9, 20), (5, 4, 4, 3))


def compiles(fn, shapes=SHAPES, make=torch.ones):
    """How many graphs serve these shapes; each call gives what eager does."""
    traced = tracer.compile(fn, dynamic=True)
    for shape in shapes:
        x = make(shape)
        Comparison().same(outcome(fn, deep_copied(x)), outcome(traced, x), str(shape))
    return traced.stats()["compiles"]


POOLS = {
    "average over all": lambda x: F.avg_pool2d(x, x.shape[2:]),
    "average, by name": lambda x: F.avg_pool2d(x, kernel_size=(x.shape[2], x.shape[3]), divisor_override=3),
    "average of halves": lambda x: F.avg_pool2d(x, (x.shape[2] // 2, x.shape[3] // 2)),
    "average with steps and padding": lambda x: F.avg_pool2d(x, (x.shape[2], 3), 1, 1, False, False),
    "a module": lambda x: torch.nn.AvgPool2d((x.shape[2], 1))(x),
    "maximum over all": lambda x: F.max_pool2d(x, x.shape[2:]),
    "maximum, torch's": lambda x: torch.max_pool2d(x, (x.shape[2], 1), (1, 2)),
    "over time": lambda x: F.max_pool1d(x[:, 0], x.shape[3]).squeeze(2),
    "average over time": lambda x: F.avg_pool1d(x[:, 0], x.shape[3]),
    "over space": lambda x: (F.avg_pool3d(x[None], (1, *x.shape[2:])), F.max_pool3d(x[None], (2, *x.shape[2:]))),
    "without a batch": lambda x: F.avg_pool2d(x[0], x.shape[2:]),
    "of what requires gradients": lambda x: F.avg_pool2d(x.clone().requires_grad_(), x.shape[2:]),
    "turned": lambda x: F.avg_pool2d(x.transpose(2, 3), (x.shape[3], x.shape[2])),
    "channels last": lambda x: F.max_pool2d(x.to(memory_format=torch.channels_last), (x.shape[2] // 2, x.shape[3] // 2)),
    "channels last, of one row": lambda x: F.avg_pool2d(x[:1].to(memory_format=torch.channels_last), x.shape[2:]),
    "turned, over time": lambda x: F.max_pool1d(x[:, 0].mT, x.shape[2]),
}


@pytest.mark.parametrize("name", POOLS)
def test_windows_of_pools_are_sizes(name) -> None:
    assert compiles(POOLS[name], make=torch.randn) == 1


REFUSED = {
    "a window larger than what it is over": lambda x: F.avg_pool2d(x, (x.shape[2] + 1, 1)),
    "steps of zero": lambda x: F.avg_pool2d(x, x.shape[2:], 0),
    "too much padding": lambda x: F.max_pool2d(x, x.shape[2:], 1, x.shape[2]),
    "a window of three dims": lambda x: F.avg_pool2d(x, x.shape[1:]),
    "whole numbers": lambda x: F.avg_pool2d(x.to(torch.int64), x.shape[2:]),
    "the ceiling": lambda x: F.avg_pool2d(x, (x.shape[2] // 2, 2), ceil_mode=True),
    "indices": lambda x: F.max_pool2d(x, x.shape[2:], return_indices=True),
    "an argument too many": lambda x: F.avg_pool2d(x, x.shape[2:], 1, 0, False, True, None, 3),
    "an argument that does not exist": lambda x: F.max_pool2d(x, x.shape[2:], strides=2),
    "dilated": lambda x: F.max_pool2d(x, (x.shape[2] // 2, 1), dilation=2),
    "an empty batch and no channels": lambda x: F.avg_pool2d(x[:0, :0], x.shape[2:]),
    "a negative number of steps": lambda x: torch.linspace(0, 1, 3 - x.shape[2]),
    "a complex end": lambda x: torch.linspace(0, 1j, x.shape[2]),
    "a start that is a tensor": lambda x: torch.linspace(x[0, 0, 0, 0], 1, x.shape[2]),
    "a window of whole numbers": lambda x: torch.hann_window(x.shape[2], dtype=torch.int64),
    "another kind of index": lambda x: F.one_hot(torch.arange(x.shape[2], dtype=torch.int32), x.shape[2]),
    "no classes": lambda x: F.one_hot(torch.arange(x.shape[2]), x.shape[2] - x.shape[2]),
    "too few classes": lambda x: F.one_hot(torch.arange(x.shape[2]), x.shape[2] - 1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_rule_does_not_tell_is_pytorchs(name) -> None:
    assert compiles(REFUSED[name]) >= 1


NEW = {
    "evenly spaced": lambda x: torch.linspace(0.5, x.shape[2] - 0.5, x.shape[2]),
    "evenly spaced, by name": lambda x: torch.linspace(start=-1, end=1, steps=x.shape[3], dtype=torch.float64, device=x.device),
    "whole numbers": lambda x: torch.linspace(0, x.shape[2], x.shape[2] * x.shape[3], dtype=torch.int32).view(x.shape[2:]),
    "powers": lambda x: torch.logspace(0, 1, x.shape[2], 2.0),
    "one that requires gradients": lambda x: torch.linspace(0, 1, x.shape[2], requires_grad=True) * 2,
    "windows": lambda x: (torch.hann_window(x.shape[2]), torch.hamming_window(x.shape[3], False)),
    "another window": lambda x: torch.blackman_window(x.shape[2]),
    "a window of doubles": lambda x: torch.bartlett_window(x.shape[2], periodic=False, dtype=torch.float64),
    "classes": lambda x: F.one_hot(torch.arange(x.shape[2]), x.shape[2]),
    "classes of what is turned": lambda x: F.one_hot(torch.arange(x.shape[2]).view(1, -1).t(), num_classes=x.shape[2] + 1),
}


@pytest.mark.parametrize("name", NEW)
def test_lengths_of_new_tensors_are_sizes(name) -> None:
    assert compiles(NEW[name]) == 1
