"""Where a number known at run time alone makes Python raise, the program sees the error, whether it uses the result or not."""

from __future__ import annotations

import random

import pytest
import torch

from tests.support import check_made


def unused(k, drawn):
    k // drawn


def quotient_of_no_importance(k, drawn):
    return (k // drawn) * 0


def rest_of_no_importance(k, drawn):
    return (k % drawn) * 0


def ratio(k, drawn):
    return (1 / drawn) * k


def shifted(k, drawn):
    k << (drawn - 1)


def power(k, drawn):
    return drawn**-1


def by_condition(k, drawn):
    k // (drawn > 0)


OPERATIONS = [unused, quotient_of_no_importance, rest_of_no_importance, ratio, shifted, power, by_condition]


@pytest.mark.parametrize("seed", range(3, 6))
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.__name__)
def test_arithmetic_on_a_drawn_number_fails_as_in_cpython(operation, seed):
    def f(x, k):
        try:
            answer = operation(k, random.randrange(2))
        except (ZeroDivisionError, ValueError) as error:
            return x + 1, type(error)
        return x + 2, answer

    check_made(f, lambda: ((torch.ones(3), 4), {}), dynamic=True, reset=lambda: random.seed(seed))


@pytest.mark.parametrize("seed", range(3, 6))
def test_a_tensor_written_to_before_a_division_by_zero_is_written_to_once(seed):
    def f(x, k):
        x *= 2
        try:
            [].append(k // random.randrange(2))
        except ZeroDivisionError:
            x += 1
        return x

    check_made(f, lambda: ((torch.ones(3), 4), {}), dynamic=True, reset=lambda: random.seed(seed))


def test_entries_serve_numbers_for_which_python_raises_and_others():
    def f(x, k):
        drawn = random.randrange(2)
        try:
            k // drawn
        except ZeroDivisionError:
            return x + 1
        return x + drawn * 2

    seeds = iter([seed for seed in range(8) for _ in range(2)])
    check_made(f, lambda: ((torch.ones(3), 4), {}), dynamic=True, calls=8, reset=lambda: random.seed(next(seeds)))
