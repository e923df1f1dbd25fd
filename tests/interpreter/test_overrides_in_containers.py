"""`__torch_function__` of what lies in a list, tuple or dict that a function of torch is given."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.support import captured_made


class Named(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.stack:
            return f"{func.__name__} of {len(types)}"
        return super().__torch_function__(func, types, args, kwargs or {})


class Duck:
    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return f"{func.__name__} of {len(types)}"


def a_list(make: Any) -> Any:
    return [torch.ones(2), make()]


def a_tuple(make: Any) -> Any:
    return (make(),)


@pytest.mark.parametrize("make", [lambda: torch.ones(2).as_subclass(Named), Duck], ids=["tensor", "other class"])
@pytest.mark.parametrize("container", [a_list, a_tuple])
def test_an_override_in_a_container_of_which_nothing_was_read_is_asked(container: Any, make: Any) -> None:
    def fn(x: torch.Tensor, given: Any) -> Any:
        return torch.stack(given), x + 1

    captured_made(fn, lambda: ((torch.ones(2), container(make)), {}))
