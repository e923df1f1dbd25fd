"""Functions that PyTorch computes of other operators before a fake mode sees them, laid out otherwise than C does: C is asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor

from tracer.operators.asked_strides import AskerOfTrace, with_asked_strides

FUNCTIONS: tuple[Callable[..., Any], ...] = (
    F.interpolate, F.upsample, F.upsample_nearest, F.upsample_bilinear, F.grid_sample, torch.hardshrink,
    torch.Tensor.hardshrink,
)  # fmt: skip


def asked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, its results with the strides that it gives when it runs."""

    def rule(*args: Any, **kwargs: Any) -> Any:
        return laid_out_as_asked(function, args, kwargs, function(*args, **kwargs))

    return rule


def laid_out_as_asked(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
    """A result of the function, with the strides that it gives when it runs."""
    if type(result) is not FakeTensor:
        return result
    return with_asked_strides(_Asker(result.fake_mode), function, args, kwargs, result)  # type: ignore[arg-type]


class _Asker(AskerOfTrace):
    def lay_out(self, args: Sequence[Any], fake: FakeTensor, strides: Sequence[Any]) -> Any:
        """Gradients pass."""
        if not fake.requires_grad:
            return super().lay_out((), fake, strides)
        return _Moved.apply(super().lay_out, fake, strides)  # type: ignore[no-untyped-call]


class _Moved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lay_out: Callable[..., Any], fake: FakeTensor, strides: Sequence[Any]) -> Any:
        return lay_out((), fake.detach(), strides)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return None, gradient, None
