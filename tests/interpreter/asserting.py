"""Programs that assert. They stand outside of the tests' own modules, whose assertions pytest rewrites."""

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


def raises_below(x):
    if not (x.sum() > 0):
        raise ValueError(f"not positive: {tuple(x.shape)}")
    return x * 2


def raises_above(x):
    y = x + 1
    if x.sum() > 0:
        text = "positive" if x.dim() else "a positive number"
        raise KeyError(text)
    return y


def raised_and_caught(x):
    try:
        if x.max() > 0:
            raise ValueError("caught")
    except ValueError as error:
        return x - 1, str(error)
    return x * 2


def raises_after_a_write(x):
    x.add_(1)
    if x.sum() > 0:
        raise ValueError("after")
    return x.mul_(2)


def raises_in_a_loop(x):
    for row in x:
        if row.sum() > 2:
            raise ValueError("a row")
    return x * 2


def returns_or_raises(x):
    if x.sum() > 0:
        if x.dim() == 1:
            return x
        raise ValueError("no")
    return x * 2


def without_gradients(x):
    y = x * 2
    with torch.no_grad():
        if x.sum() < 0:
            raise ValueError("negative")
        z = y * 2
    return y, z, torch.is_grad_enabled()


def number_below_a_size(x, n):
    k = n.item()
    assert k < x.shape[0], "too large"
    return x[k] + k


def raises_for_many(x):
    kept = x[x > 0]
    if kept.shape[0] > 3:
        raise ValueError(f"{kept.shape[0]} are too many")
    return kept * 2


def raises_for_a_number_that_is_zero(x, n):
    k = n.item()
    if not k != 0:
        raise ZeroDivisionError("by the data")
    return x / k
