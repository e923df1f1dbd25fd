"""A tensor that wraps another and computes in its `__torch_dispatch__`, and the comparison of such tensors part by part."""

from __future__ import annotations

from typing import Any

import torch
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._pytree import tree_map

from tests.support.checking import Checked, captured_made, check_made
from tests.support.comparing import Comparison

X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Scaled(torch.Tensor):
    """Stands for `inner * scale`. `inner` is the name of a method of torch.Tensor, too."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor, scale: float = 1.0) -> Scaled:
        size, strides = inner.shape, inner.stride()
        return torch.Tensor._make_wrapper_subclass(cls, size, strides=strides, dtype=inner.dtype)  # type: ignore[attr-defined]

    def __init__(self, inner: torch.Tensor, scale: float = 1.0) -> None:
        self.inner, self.scale = inner, scale

    def plain(self) -> torch.Tensor:
        return self.inner * self.scale

    @property
    def doubled(self) -> float:
        return self.scale * 2

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*tree_map(plain, args), **tree_map(plain, kwargs or {}))
        return tree_map(lambda item: cls(item) if isinstance(item, torch.Tensor) else item, result)


def plain(value: Any) -> Any:
    return value.plain() if isinstance(value, Scaled) else value


class ByParts(Comparison):
    def _tensor(self, expected: torch.Tensor, seen: torch.Tensor, path: str) -> None:
        if isinstance(expected, (Scaled, TwoTensor)):
            assert type(expected) is type(seen)
            assert expected.shape == seen.shape and expected.stride() == seen.stride(), path
            assert expected.requires_grad is seen.requires_grad and expected.is_leaf is seen.is_leaf, path
            self.same(vars(expected), vars(seen), path)
        else:
            super()._tensor(expected, seen, path)


class WithoutFunction(Scaled):
    __torch_function__ = torch._C._disabled_torch_function_impl


class Summing(Scaled):
    """Overrides methods of torch.Tensor."""

    def sum(self, *args: Any) -> Any:
        return super().sum(*args) * 3

    def dequantize(self) -> torch.Tensor:
        return self.inner * self.scale

    def detach(self) -> Any:
        return "detached"


def wrapper_and_tensor() -> Any:
    return (Scaled(X.clone(), 2.0), X.clone()), {}


def check_wrappers(fn: Any, make: Any = wrapper_and_tensor, **options: Any) -> Checked:
    """As `check_made`, by default on a wrapper and a plain tensor, which are compared part by part."""
    return check_made(fn, make, comparison=ByParts, as_written=True, **options)


def captured_wrappers(fn: Any, make: Any = wrapper_and_tensor, **options: Any) -> Checked:
    """As `captured_made`, by default on a wrapper and a plain tensor, which are compared part by part."""
    return captured_made(fn, make, comparison=ByParts, as_written=True, **options)


def assert_same(expected: Any, seen: Any) -> None:
    ByParts().same(expected, seen, "result")
