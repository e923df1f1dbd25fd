"""Wrappers that torch's compilers can take apart and put together, and the comparison of compiled programs with the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_map

from tests.support.wrappers import ByParts
from tracer import optimize, stats
from tracer.errors import Unsupported

X = torch.linspace(-1, 1, 12).reshape(3, 4)
_OF_COMPILERS = "_dynamo_propagated_dynamic_indices"  # AOTAutograd leaves it on results


class Flat(torch.Tensor):
    """Stands for `inner * scale`; its results keep the scale of the first operand."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor, scale: float = 1.0, size: Any = None, strides: Any = None) -> Flat:
        size, strides = inner.shape if size is None else size, inner.stride() if strides is None else strides
        return torch.Tensor._make_wrapper_subclass(cls, size, strides=strides, dtype=inner.dtype)  # type: ignore[attr-defined]

    def __init__(self, inner: torch.Tensor, scale: float = 1.0, size: Any = None, strides: Any = None) -> None:
        self.inner, self.scale = inner, scale

    def __repr__(self) -> str:  # under pytest, torch's logs ask for it while it compiles
        return f"{type(self).__name__}({self.inner!r}, {self.scale!r})"

    def __tensor_flatten__(self) -> Any:
        return ["inner"], {"scale": self.scale}

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, context: Any, size: Any, strides: Any) -> Flat:
        return cls(inner["inner"], context["scale"], size, strides)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.mul_.Tensor:
            args[0].inner.mul_(args[1])
            return args[0]
        scale = next((arg.scale for arg in args if isinstance(arg, Flat)), 1.0)
        unwrap = lambda value: value.inner if isinstance(value, Flat) else value
        result = func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {}))
        return tree_map(lambda item: cls(item, scale) if isinstance(item, torch.Tensor) else item, result)


class Aliased(Flat):
    """Its views are views of it."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        return return_and_correct_aliasing(func, args, kwargs or {}, result)


class WithBias(torch.Tensor):
    """A tensor inside of another size, and one that may be missing: `rows[0]` for each row, plus `bias`."""

    @staticmethod
    def __new__(cls, row: torch.Tensor, count: int, bias: torch.Tensor | None = None) -> WithBias:
        return torch.Tensor._make_wrapper_subclass(cls, (count, *row.shape), dtype=row.dtype)  # type: ignore[attr-defined]

    def __init__(self, row: torch.Tensor, count: int, bias: torch.Tensor | None = None) -> None:
        self.row, self.count, self.bias = row, count, bias

    def __tensor_flatten__(self) -> Any:
        return ["row", *([] if self.bias is None else ["bias"])], (self.count,)

    @staticmethod
    def __tensor_unflatten__(inner: Any, context: Any, size: Any, strides: Any) -> WithBias:
        return WithBias(inner["row"], context[0], inner.get("bias"))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        first = args[0]
        if func in (torch.ops.aten.sin.default, torch.ops.aten.detach.default, torch.ops.aten.clone.default):
            return cls(func(first.row), first.count, None if first.bias is None else func(first.bias))
        unwrap = lambda value: value.dense() if isinstance(value, WithBias) else value
        return func(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {}))

    def __repr__(self) -> str:
        return f"WithBias({self.row!r}, {self.count!r}, {self.bias!r})"

    def dense(self) -> torch.Tensor:
        rows = self.row.expand(self.count, *self.row.shape)
        return rows if self.bias is None else rows + self.bias


class Compared(ByParts):
    """Compares wrappers part by part, floats within a tolerance."""

    def __init__(self, exact: bool = True) -> None:
        super().__init__()
        self.exact = exact

    def _tensor(self, expected: torch.Tensor, seen: torch.Tensor, path: str) -> None:
        if isinstance(expected, (Flat, WithBias, TwoTensor)):
            vars(seen).pop(_OF_COMPILERS, None)
            assert type(expected) is type(seen) and expected.requires_grad is seen.requires_grad, path
            assert expected.shape == seen.shape and expected.stride() == seen.stride(), path
            self.same(vars(expected), vars(seen), path)
        elif self.exact:
            super()._tensor(expected, seen, path)
        else:
            torch.testing.assert_close(seen, expected, msg=lambda text: f"{path}: {text}")


def compare(program: Callable[..., Any], *calls: Callable[[], Any], backend: str = "aot_eager", **options: Any) -> dict[str, Any]:
    """Runs a program in CPython and compiled, with what each of `calls` makes; compares the results and what is left in the
    arguments. -> the stats of the compiled function"""
    compiled = optimize(backend, **options)(program)
    for make in calls:
        args, same = make(), make()
        outcome = Compared(backend == "aot_eager")
        outcome.same((program(*args), args), (compiled(*same), same), "result")
    return stats(compiled)


def break_of(program: Callable[..., Any], *args: Any) -> str:
    """Why a graph breaks that is to be compiled."""
    try:
        optimize("aot_eager", fullgraph=True)(program)(*args)
    except Unsupported as error:
        return str(error)
    return ""
