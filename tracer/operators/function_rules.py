"""Functions whose own computation on fake tensors fixes a size that could stay symbolic, or copies what the function returns:
other functions whose results have the same sizes, strides, dtype, memory and autograd state are run in their place. The graph
calls the function itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor

from tracer.operators.asked_functions import FUNCTIONS, asked
from tracer.operators.int_parameters import with_int_parameters


def _gru_or_rnn(gates: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's decomposition walks over the steps of the sequence, and so needs their number."""

    def rule(data: torch.Tensor, hidden: torch.Tensor, weights: Any, *options: Any, **kwargs: Any) -> Any:
        if kwargs or len(options) != 6 or not isinstance(weights, (list, tuple)):
            return function(data, hidden, weights, *options, **kwargs)  # a packed sequence, or what will be refused
        _, layers, dropout, train, bidirectional, batch_first = options
        steps = data.transpose(0, 1) if batch_first else data
        size = hidden.shape[-1]
        if weights[0].shape[0] != gates * size:  # with projections, or wrong
            return function(data, hidden, weights, *options)
        out = _layer(steps, weights, size, bidirectional)
        if train and dropout and layers > 1:
            out = F.dropout(out, dropout, True)
        last = hidden * out.sum()
        return out.transpose(0, 1) if batch_first else out, last

    return rule


def _layer(steps: torch.Tensor, weights: Sequence[torch.Tensor], size: Any, bidirectional: bool) -> torch.Tensor:
    """A result that depends on the inputs and all weights, as autograd sees it."""
    out = F.linear(steps, weights[0])[..., :size]
    for weight in weights[1:]:
        out = out + weight.sum()
    return torch.cat([out, out], -1) if bidirectional else out.contiguous()


def _max_pool1d(
    data: torch.Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """PyTorch's own asks for the length as a plain int."""
    if return_indices:
        return F.max_pool1d(data, kernel_size, stride, padding, dilation, ceil_mode, True)
    stride = kernel_size if stride is None or stride == () or stride == [] else stride
    sizes = [[fill, *_as_list(value)] for fill, value in ((1, kernel_size), (1, stride), (0, padding), (1, dilation))]
    if data.device.type == "cpu" and not (data.requires_grad and torch.is_grad_enabled()):
        data = data.contiguous()  # as a kernel of its own gives it
    return torch.max_pool2d(data.unsqueeze(-2), *sizes, ceil_mode).squeeze(-2)


def _dropout(input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    return input if _drops_nothing(input, p, training) else F.dropout(input, p, training, inplace)


def _torch_dropout(input: torch.Tensor, p: float, train: bool) -> Any:
    return input if _drops_nothing(input, p, train) else torch.dropout(input, p, train)


def _drops_nothing(data: Any, p: Any, training: Any) -> bool:
    """The result is the argument then; PyTorch's decomposition copies it."""
    if not isinstance(data, torch.Tensor) or type(p) not in (int, float, torch.SymFloat) or not 0 <= p <= 1:
        return False
    return training is False or bool(p == 0) or not _has_items(data)


def _has_items(tensor: torch.Tensor) -> bool:
    return not any(type(size) is int and size == 0 for size in tensor.shape)


def _one_hot(tensor: torch.Tensor, num_classes: int = -1) -> Any:
    """PyTorch's decomposition keeps strides that the function does not, and takes dtypes that it refuses."""
    if isinstance(tensor, torch.Tensor) and tensor.dtype is not torch.int64:
        raise RuntimeError(f"one_hot of {tensor.dtype}")
    return F.one_hot(tensor, num_classes).contiguous()


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


_RULES: dict[Any, Callable[..., Any]] = {
    torch.gru: _gru_or_rnn(3, torch.gru),
    torch.rnn_tanh: _gru_or_rnn(1, torch.rnn_tanh),
    torch.rnn_relu: _gru_or_rnn(1, torch.rnn_relu),
    torch.max_pool1d: _max_pool1d,
    F.max_pool1d: _max_pool1d,
    F.dropout: _dropout,
    torch.dropout: _torch_dropout,
    F.one_hot: _one_hot,
    **{function: asked(function) for function in FUNCTIONS},
}
_RULES |= with_int_parameters(_RULES)


def fake_form(function: Any) -> Any:
    """What to run on fake tensors for a function."""
    try:
        return _RULES.get(function, function)
    except TypeError:  # not hashable
        return function


def fake_method(tensor: Any, name: str) -> Any:
    """What to run on fake tensors for a method of one of them."""
    rule = _RULES.get(getattr(torch.Tensor, name, None))
    return getattr(tensor, name) if rule is None or type(tensor) is not FakeTensor else functools.partial(rule, tensor)
