"""Programs that assert. They stand outside of the tests' own modules, whose assertions pytest writes anew."""
from __future__ import annotations

import torch


def first_is_three(x):
    b = x.sin()
    assert x[0] == 3, "the first is to be 3"
    return x.cos() + b


def positive(x):
    assert x.sum() > 0
    return x * 2


def between_writes(x):
    x += 1
    assert x.sum() > 0
    x += 1
    return x


def caught(x):
    try:
        assert x.sum() > 0, "no"
        return x * 2
    except AssertionError:
        return x * 3


def with_a_text(x):
    assert x.sum() > 0, f"{x.shape}"
    return x * 2


def of_many(x):
    assert x > 0
    return x * 2


def all_checked(x):
    torch._check_tensor_all(x > 0, lambda: f"{x} is not positive")
    return x + 1


def all_checked_of_no_booleans(x):
    torch._check_tensor_all(x)
    return x + 1
