"""Functions with parameters that are plain ints to PyTorch, called with sizes that are symbols: what comes out.

Where PyTorch runs such a function on fake tensors it asks for the number, which fixes the size. A rule here gives a result with
the same sizes, strides, dtype and autograd state; where it cannot tell, or the call will be refused, PyTorch is asked as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor

from tracer.operators.asked_functions import laid_out_as_asked
from tracer.operators.asked_strides import can_be_asked, is_in_line

_FACTORY_OPTIONS = {"dtype", "device", "layout", "pin_memory", "requires_grad"}


def _is_symbol(value: Any) -> bool:
    return isinstance(value, torch.SymInt)


def _has_symbol(value: Any) -> bool:
    return any(map(_is_symbol, value)) if isinstance(value, (list, tuple)) else _is_symbol(value)


# -- pooling over windows of symbolic sizes --------------------------------------------------------------------


def _avg_pool(dims: int, function: Callable[..., Any]) -> Callable[..., Any]:
    def rule(input: Any, kernel_size: Any, *args: Any, **kwargs: Any) -> Any:
        def pooled(
            stride: Any = None, padding: Any = 0, ceil_mode: Any = False, count_include_pad: Any = True, divisor_override: Any = 0
        ) -> Any:
            return _pooled(torch.sum, input, dims, kernel_size, stride, padding) if ceil_mode is False else None

        return _result(pooled, function, input, kernel_size, args, kwargs)

    return rule


def _max_pool(dims: int, function: Callable[..., Any]) -> Callable[..., Any]:
    def rule(input: Any, kernel_size: Any, *args: Any, **kwargs: Any) -> Any:
        def pooled(
            stride: Any = None, padding: Any = 0, dilation: Any = 1, ceil_mode: Any = False, return_indices: Any = False
        ) -> Any:
            undilated = all(type(step) is int and step == 1 for step in _each(dilation, dims) or [0])
            if not undilated or ceil_mode is not False or return_indices is not False:
                return None
            return _pooled(torch.amax, input, dims, kernel_size, stride, padding)

        return _result(pooled, function, input, kernel_size, args, kwargs)

    return rule


def _result(
    pooled: Callable[..., Any], function: Callable[..., Any], input: Any, kernel_size: Any, args: Any, kwargs: Any
) -> Any:
    symbolic = _has_symbol(kernel_size) or any(map(_has_symbol, (*args, *kwargs.values())))
    result = pooled(*args, **kwargs) if symbolic and type(input) is FakeTensor else None
    if result is None:
        return function(input, kernel_size, *args, **kwargs)
    return laid_out_as_asked(function, (input, kernel_size, *args), kwargs, result)


def _pooled(
    reduce: Callable[..., torch.Tensor], data: torch.Tensor, dims: int, kernel_size: Any, stride: Any, padding: Any
) -> torch.Tensor | None:
    """None where the sizes do not fit, or nobody could be asked for the layout of the result."""
    windows, pads = _each(kernel_size, dims), _each(padding, dims)
    steps = windows if stride is None or stride == () or stride == [] else _each(stride, dims)
    if not windows or not steps or not pads or data.dim() not in (dims + 1, dims + 2) or data.device.type != "cpu":
        return None
    if not data.dtype.is_floating_point or any(size == 0 for size in data.shape):
        return None
    if not is_in_line(data) and not can_be_asked([data]):
        return None
    sizes = []
    for size, window, step, pad in zip(data.shape[-dims:], windows, steps, pads):
        if window <= 0 or step <= 0 or pad < 0 or 2 * pad > window or window > size + 2 * pad:
            return None
        sizes.append((size + 2 * pad - window) // step + 1)
    one_each = reduce(data, dim=tuple(range(-dims, 0)), keepdim=True)
    return one_each.expand(*data.shape[:-dims], *sizes).clone(memory_format=torch.contiguous_format)


def _each(value: Any, dims: int) -> list[Any] | None:
    """A number for each dim; None where the value does not give that."""
    numbers = list(value) if isinstance(value, (list, tuple)) else [value]
    numbers = numbers * dims if len(numbers) == 1 else numbers
    return numbers if len(numbers) == dims and all(type(number) in (int, torch.SymInt) for number in numbers) else None


# -- new tensors of symbolic length ----------------------------------------------------------------------------


def _steps(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function(start, end, steps)`"""

    def rule(*args: Any, **kwargs: Any) -> Any:
        named = dict(zip(("start", "end", "steps", "base"), args), **kwargs)
        start, end, length = named.pop("start", None), named.pop("end", None), named.pop("steps", None)
        numbers = (start, end, named.pop("base", 0.0))
        if not all(type(number) in (int, float, torch.SymInt, torch.SymFloat) for number in numbers):
            return function(*args, **kwargs)
        made = _new(length, named)
        return function(*args, **kwargs) if made is None else made

    return rule


def _window(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function(window_length, periodic)`"""

    def rule(window_length: Any, *args: Any, **kwargs: Any) -> Any:
        plain = not args or len(args) == 1 and type(args[0]) is bool
        options = {name: value for name, value in kwargs.items() if name != "periodic" or type(value) is not bool}
        dtype = options.get("dtype")
        made = _new(window_length, options) if plain and (dtype is None or dtype.is_floating_point) else None
        return function(window_length, *args, **kwargs) if made is None else made

    return rule


def _new(length: Any, options: dict[str, Any]) -> torch.Tensor | None:
    if not _is_symbol(length) or not options.keys() <= _FACTORY_OPTIONS or length < 0:
        return None
    return torch.empty(length, **options)


def _one_hot(otherwise: Callable[..., Any]) -> Callable[..., Any]:
    def rule(tensor: Any, num_classes: Any = -1) -> Any:
        indices = isinstance(tensor, torch.Tensor) and tensor.dtype is torch.int64
        if indices and _is_symbol(num_classes) and num_classes >= 1:
            return tensor.new_empty((*tensor.shape, num_classes))
        return otherwise(tensor, num_classes)

    return rule


def with_int_parameters(rules: dict[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """The rules of this module; what they leave is done by those given, or by the functions."""

    def of(functions: Sequence[Any], make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
        return {function: make(rules.get(function, function)) for function in functions}

    found = of((torch.linspace, torch.logspace), _steps)
    found |= of((torch.hann_window, torch.hamming_window, torch.blackman_window, torch.bartlett_window), _window)
    found |= of([F.one_hot], _one_hot)
    pools = {
        1: (F.avg_pool1d, (F.max_pool1d, torch.max_pool1d)),
        2: (F.avg_pool2d, (F.max_pool2d, torch.max_pool2d)),
        3: (F.avg_pool3d, (F.max_pool3d, torch.max_pool3d)),
    }
    for dims, (average, maxima) in pools.items():
        found |= of([average], lambda function, dims=dims: _avg_pool(dims, function))  # type: ignore[misc]
        found |= of(maxima, lambda function, dims=dims: _max_pool(dims, function))  # type: ignore[misc]
    return found
