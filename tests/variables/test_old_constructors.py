"""The old ways to make and to convert tensors, and tensors made of Python's ranges and numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.autograd import Variable

import tracer
from tests.support import breaks, captured, check
from tests.support.comparing import Comparison


def test_new_with_sizes_makes_an_empty_tensor_of_the_same_kind():
    def fn(x, y):
        return x.new(y.shape).fill_(1), x.new(3, 4).zero_(), x.new().shape

    captured(fn, torch.ones(2, dtype=torch.float64), torch.ones(3))


def test_new_with_data_makes_a_tensor_of_the_same_kind():
    def fn(x, y):
        return x.new([1, 2]) + x, x.new((y.shape[0], 3)), y.new([[1], [2]]), y.new([])

    captured(fn, torch.ones(2, dtype=torch.float64), torch.ones(3, dtype=torch.int32))


def test_new_with_a_tensor_is_left_to_torch():
    breaks(lambda x: x.new(x) + x, torch.ones(2))


def test_the_old_names_of_types_are_dtypes():
    captured(lambda x, y: (x.type(torch.HalfTensor), y.type(x.type(torch.DoubleTensor).type())), torch.ones(2), torch.ones(3))


def test_a_tensor_made_of_a_constant_is_an_index():
    captured(lambda x: [x, x + 1, x + 2][torch.as_tensor(2)] * 2, torch.ones(2))


def test_a_tensor_is_made_of_a_range():
    captured(lambda x: torch.tensor(range(x.size(0))) + x, torch.ones(3))


def test_a_tensor_is_made_by_the_class_of_its_dtype():
    def fn(x):
        return (
            torch.FloatTensor([1, 2]) + x,
            torch.LongTensor(range(3)),
            torch.BoolTensor([True]),
            torch.IntTensor(x.size()).shape,
        )

    captured(fn, torch.ones(2))


def test_the_class_of_a_dtype_converts_an_array():
    captured(lambda x: torch.FloatTensor(np.arange(2.0)) + x, torch.ones(2))


def test_the_class_of_a_dtype_takes_numbers_of_numpy():
    captured(lambda x: torch.LongTensor([np.int64(1), np.int64(2)]) + x, torch.ones(2))


def test_a_tensor_of_an_array_shares_its_memory_where_the_dtype_is_the_same():
    def fn(a, b):
        made = torch.FloatTensor(a), torch.Tensor(a), torch.DoubleTensor(a), torch.Tensor(b)
        a[0] += 1
        made[1][1] += 2
        b[0] += 1
        return [each + 1 for each in made], made[1]

    captured(fn, np.zeros(3, np.float32), np.zeros(3))


def test_a_variable_is_an_alias_of_a_tensor_without_its_gradient():
    def fn(x, y):
        made = Variable(x * 2)
        alias = Variable(data=y, requires_grad=False)
        alias.add_(1)
        return made, made.requires_grad, isinstance(made, Variable), alias, y + 1, Variable().shape

    captured(fn, torch.ones(3, requires_grad=True), torch.ones(3))


def test_a_variable_that_requires_a_gradient_is_a_leaf():
    def fn(x):
        leaf = Variable(x, requires_grad=True)
        (leaf * leaf * 3).sum().backward()
        return leaf.grad

    captured(fn, torch.arange(3.0))


def test_the_class_of_tensors_converts_an_array_and_takes_sizes():
    def fn(x, a):
        return torch.Tensor(a) + 1, torch.Tensor(a.T).stride(), torch.Tensor(x.size()).fill_(2), torch.Tensor(range(3))

    captured(fn, torch.ones(2, 3), np.arange(6.0).reshape(2, 3))
    captured(lambda a: torch.Tensor(a > 1), np.arange(3))


@pytest.mark.parametrize("array", [np.array(3.0), np.zeros((0, 3)), np.float32(3), np.array(["a"])])
def test_arrays_that_are_converted_otherwise_are_left_to_torch(array):
    check(lambda: (torch.Tensor(array), torch.FloatTensor(array)))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_new_tensor_without_items_is_resized(backend):
    def mask(x):
        made = x.data.new().resize_((x.size(0), 1))
        same = made
        return made.fill_(2).expand_as(x) * x, torch.empty(0, 3).resize_as_(x).copy_(x), same.shape, same.stride(), same is made

    traced = tracer.compile(mask, backend=backend, fullgraph=True)
    for rows in (3, 4, 6, 7):
        x = torch.randn(rows, 2)
        Comparison().same(mask(x), traced(x), "result")
    assert len(tracer.region_of(traced).entries()) <= 2


RESIZED = {
    "a tensor with items": lambda x: (x * 2).resize_(2),
    "an argument": lambda x: x.resize_(2, 2).fill_(1),
    "a view of one without items": lambda x: torch.empty(0).view(0).resize_(2).fill_(1),
    "to a memory format": lambda x: torch.empty(0).resize_(1, 2, 3, 4, memory_format=torch.channels_last).fill_(1),
}


@pytest.mark.parametrize("name", RESIZED)
def test_what_is_resized_in_memory_that_was_there_is_left_to_torch(name):
    assert check(RESIZED[name], torch.ones(3)).break_ids
