"""A `__torch_function__` that is no class method: torch gives it the object, and warns."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from tests.support import captured_made, check_made


class Held:
    """Its override is no class method, and so is given the object."""

    def __init__(self, tensor: torch.Tensor, factor: float) -> None:
        self.tensor = tensor
        self.factor = factor

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        plain = [arg.tensor if isinstance(arg, Held) else arg for arg in args]
        return func(*plain, **(kwargs or {})) * self.factor


class ByInstance(torch.Tensor):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.filterwarnings("ignore")
def test_an_override_that_is_no_class_method_is_given_the_object() -> None:
    def fn(x: Any) -> Any:
        held = Held(x, 3.0)
        return torch.add(held, 1), torch.nn.functional.relu(held), torch.add(Held(x, 5.0), held), held.factor

    captured_made(fn, lambda: ((torch.arange(3.0) - 1,), {}))
    captured_made(lambda x: (x.as_subclass(ByInstance) + 1, x * 2), lambda: ((torch.arange(3.0) - 1,), {}))


def test_a_program_that_turns_warnings_into_errors_meets_the_one_of_such_an_override() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checked = check_made(_added_to_held, lambda: ((torch.ones(2),), {}))
    assert checked.breaks


def _added_to_held(x: Any) -> Any:
    try:
        return torch.add(Held(x, 3.0), 1)
    except UserWarning:  # once in a process
        return x * 3 + 3
