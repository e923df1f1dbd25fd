"""Functions that PyTorch computes of other operators before a fake mode sees them, laid out otherwise than C does: C is asked."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor

from tracer.graph.asked_strides import laid_out, with_asked_strides

FUNCTIONS: tuple[Callable[..., Any], ...] = (
    F.interpolate, F.upsample, F.upsample_nearest, F.upsample_bilinear, F.grid_sample, torch.hardshrink,
    torch.Tensor.hardshrink,
)  # fmt: skip


def asked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, its results with the strides that it gives when it runs."""

    def rule(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        return with_asked_strides(function, args, kwargs, result, _lay_out)

    return rule


def _lay_out(args: Any, fake: FakeTensor, strides: tuple[Any, ...]) -> Any:
    lay_out = functools.partial(laid_out, fake.fake_mode)
    return _Moved.apply(lay_out, fake, strides) if fake.requires_grad else lay_out((), fake, strides)  # type: ignore[no-untyped-call]


class _Moved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lay_out: Callable[..., Any], fake: FakeTensor, strides: tuple[Any, ...]) -> Any:
        return lay_out((), fake.detach(), strides)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return None, gradient, None
