"""Rules for functions that make tensors and whose length PyTorch takes as a plain int, which would fix a symbolic size."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

from tracer.operators.meta import meta

_OPTIONS = {"dtype", "device", "layout", "pin_memory", "requires_grad"}


@meta(torch.linspace, torch.logspace)
def _steps(function: Any, *args: Any, **kwargs: Any) -> Any:
    """`function(start, end, steps)`"""
    named = dict(zip(("start", "end", "steps", "base"), args), **kwargs)
    start, end, length = named.pop("start", None), named.pop("end", None), named.pop("steps", None)
    numbers = (start, end, named.pop("base", 0.0))
    if not all(type(number) in (int, float, torch.SymInt, torch.SymFloat) for number in numbers):
        return NotImplemented
    return _new(length, named)


@meta(torch.hann_window, torch.hamming_window, torch.blackman_window, torch.bartlett_window)
def _window(function: Any, window_length: Any, *args: Any, **kwargs: Any) -> Any:
    """`function(window_length, periodic)`"""
    plain = not args or len(args) == 1 and type(args[0]) is bool
    options = {name: value for name, value in kwargs.items() if name != "periodic" or type(value) is not bool}
    dtype = options.get("dtype")
    return _new(window_length, options) if plain and (dtype is None or dtype.is_floating_point) else NotImplemented


def _new(length: Any, options: dict[str, Any]) -> Any:
    if not isinstance(length, torch.SymInt) or not options.keys() <= _OPTIONS or length < 0:
        return NotImplemented
    return torch.empty(length, **options)


@meta(F.one_hot)
def _one_hot(function: Any, tensor: Any, num_classes: Any = -1) -> Any:
    """PyTorch's decomposition fixes the number of classes, keeps strides that the function does not, and takes dtypes that it
    refuses."""
    if not isinstance(tensor, torch.Tensor):
        return NotImplemented
    if tensor.dtype is not torch.int64:
        raise RuntimeError(f"one_hot of {tensor.dtype}")
    if isinstance(num_classes, torch.SymInt) and num_classes >= 1:
        return tensor.new_empty((*tensor.shape, num_classes))
    return function(tensor, num_classes).contiguous()
