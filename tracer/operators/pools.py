"""Rules for pooling, whose window sizes PyTorch takes as plain ints, which would fix a symbolic size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor

from tracer.operators.meta import meta
from tracer.operators.probed_strides import can_be_probed, is_contiguous_now, laid_out_as_probed

_DIMS = {"1d": 1, "2d": 2, "3d": 3}


@meta(F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)
def _avg_pool(function: Any, input: Any, kernel_size: Any, *args: Any, **kwargs: Any) -> Any:
    def pooled(
        stride: Any = None, padding: Any = 0, ceil_mode: Any = False, count_include_pad: Any = True, divisor_override: Any = 0
    ) -> Any:
        return NotImplemented if ceil_mode is not False else _pooled(torch.sum, function, input, kernel_size, stride, padding)

    return _result(pooled, function, input, kernel_size, args, kwargs)


@meta(F.max_pool2d, torch.max_pool2d, F.max_pool3d, torch.max_pool3d)
def _max_pool(function: Any, input: Any, kernel_size: Any, *args: Any, **kwargs: Any) -> Any:
    def pooled(
        stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: Any = False, return_indices: Any = False
    ) -> Any:
        undilated = all(type(step) is int and step == 1 for step in _each(dilation, _dims(function)) or [0])
        if not undilated or ceil_mode is not False or return_indices is not False:
            return NotImplemented
        return _pooled(torch.amax, function, input, kernel_size, stride, padding)

    return _result(pooled, function, input, kernel_size, args, kwargs)


@meta(F.max_pool1d, torch.max_pool1d)
def _max_pool1d(function: Any, input: Any, kernel_size: Any, *args: Any, **kwargs: Any) -> Any:
    """As max_pool2d: PyTorch's own max_pool1d takes the length as a plain int."""
    result = _max_pool(function, input, kernel_size, *args, **kwargs)
    return _by_max_pool2d(input, kernel_size, *args, **kwargs) if result is NotImplemented else result


def _by_max_pool2d(
    data: torch.Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    if return_indices:
        return NotImplemented
    stride = kernel_size if _is_none(stride) else stride
    sizes = [[fill, *_as_list(value)] for fill, value in ((1, kernel_size), (1, stride), (0, padding), (1, dilation))]
    if data.device.type == "cpu" and not (data.requires_grad and torch.is_grad_enabled()):
        data = data.contiguous()  # without gradients there is a kernel of its own, whose result is contiguous
    return torch.max_pool2d(data.unsqueeze(-2), *sizes, ceil_mode).squeeze(-2)


def _result(
    pooled: Callable[..., Any], function: Callable[..., Any], input: Any, kernel_size: Any, args: Any, kwargs: Any
) -> Any:
    symbolic = _has_symbol(kernel_size) or any(map(_has_symbol, (*args, *kwargs.values())))
    result = pooled(*args, **kwargs) if symbolic and type(input) is FakeTensor else NotImplemented
    if result is NotImplemented:
        return NotImplemented
    return laid_out_as_probed(function, (input, kernel_size, *args), kwargs, result)


def _pooled(
    reduce: Callable[..., torch.Tensor], function: Any, data: torch.Tensor, kernel_size: Any, stride: Any, padding: Any
) -> Any:
    """A fake of the pooled size; NotImplemented if the arguments do not fit, or the kernel could not be run for its strides."""
    dims = _dims(function)
    windows, pads = _each(kernel_size, dims), _each(padding, dims)
    steps = windows if _is_none(stride) else _each(stride, dims)
    if not windows or not steps or not pads or data.dim() not in (dims + 1, dims + 2) or data.device.type != "cpu":
        return NotImplemented
    if not data.dtype.is_floating_point or any(size == 0 for size in data.shape):
        return NotImplemented
    if not is_contiguous_now(data) and not can_be_probed([data]):
        return NotImplemented
    sizes = []
    for size, window, step, pad in zip(data.shape[-dims:], windows, steps, pads):
        if window <= 0 or step <= 0 or pad < 0 or 2 * pad > window or window > size + 2 * pad:
            return NotImplemented
        sizes.append((size + 2 * pad - window) // step + 1)
    one_each = reduce(data, dim=tuple(range(-dims, 0)), keepdim=True)
    return one_each.expand(*data.shape[:-dims], *sizes).clone(memory_format=torch.contiguous_format)


def _dims(function: Any) -> int:
    return _DIMS[function.__name__[-2:]]


def _is_none(stride: Any) -> bool:
    return stride is None or stride == () or stride == []


def _has_symbol(value: Any) -> bool:
    return any(map(_has_symbol, value)) if isinstance(value, (list, tuple)) else isinstance(value, torch.SymInt)


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _each(value: Any, dims: int) -> list[Any] | None:
    """A number for each dim; None where the value does not give that."""
    numbers = _as_list(value)
    numbers = numbers * dims if len(numbers) == 1 else numbers
    return numbers if len(numbers) == dims and all(type(number) in (int, torch.SymInt) for number in numbers) else None
