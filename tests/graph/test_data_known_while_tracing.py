"""What is decided on tensors that were made of constants: their data are known as long as nothing symbolic joins them."""

from __future__ import annotations

import pytest
import torch

from tests.support import captured_made, check_made


def sum_(data, number):
    return data + number


def product(data, number):
    return data.mul(number)


def filled(data, number):
    return data.fill_(number)


def multiplied(data, number):
    data *= number
    return data


def written_through_a_view(data, number):
    data.view(1).add_(number)
    return data


def item_set(data, number):
    data[0] = number
    return data


def masked(data, number):
    return data.masked_fill(torch.tensor(True), number)


def chosen(data, number):
    return torch.where(torch.tensor([True]), number, data)


def between(data, number):
    return torch.lerp(data, torch.tensor([2.0]), number)


OPERATIONS = [sum_, product, filled, multiplied, written_through_a_view, item_set, masked, chosen, between]


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
@pytest.mark.parametrize("n", [9, 2])
def test_a_constant_that_meets_a_symbolic_float_is_no_longer_known(operation, n):
    def program(n):
        if operation(torch.tensor([1.5]), n / 2) > 3:
            return "more"
        return "less"

    check_made(program, lambda: ((n,), {}), dynamic=True)


@pytest.mark.parametrize("n", [9, 2])
def test_a_constant_that_meets_a_condition_on_sizes_is_no_longer_known(n):
    def program(n):
        if (torch.tensor([2.0]) * (n > 5)).any():
            return "any"
        return "none"

    check_made(program, lambda: ((n,), {}), dynamic=True)


def test_a_constant_is_known_after_it_was_read_beside_a_symbolic_float():
    def program(x, n):
        limit = torch.tensor(1.5)
        x = x + limit * (n / 2)
        return x + 1 if limit > 1 else x

    captured_made(program, lambda: ((torch.ones(3), 7), {}), dynamic=True)


def test_constants_alone_are_known():
    def program(x):
        limit = torch.tensor(1.5)
        limit += 2
        return x + 1 if limit > 3 else x

    captured_made(program, lambda: ((torch.ones(3),), {}))
