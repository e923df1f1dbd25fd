"""Rules for functions of torch that do on fake tensors what they do not do on real ones: fix a size that could stay symbolic,
give a result other strides, or copy what they should return. A rule gives a fake with the sizes, strides, dtype, memory and
autograd state of the real result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from tracer.operators.meta import meta
from tracer.operators.probed_strides import laid_out_as_probed


@meta(
    F.interpolate, F.upsample, F.upsample_nearest, F.upsample_bilinear, F.grid_sample, torch.hardshrink, torch.Tensor.hardshrink,
)  # fmt: skip
def _laid_out_otherwise(function: Any, *args: Any, **kwargs: Any) -> Any:
    """PyTorch decomposes these functions before a fake mode sees them, and the parts give other strides than the function's own
    kernel. The kernel is run to find its strides."""
    return laid_out_as_probed(function, args, kwargs, function(*args, **kwargs))


# -- recurrent layers ----------------------------------------------------------------------------------------------


@meta(torch.lstm, gates=4)
@meta(torch.gru, gates=3)
@meta(torch.rnn_tanh, torch.rnn_relu, gates=1)
def _recurrent(function: Any, data: torch.Tensor, hidden: Any, weights: Any, *options: Any, gates: int, **kwargs: Any) -> Any:
    """PyTorch's decomposition walks over the steps of the sequence, and so needs their number. The hidden state of an LSTM is two
    tensors."""
    if kwargs or len(options) != 6 or not isinstance(weights, (list, tuple)):
        return NotImplemented  # a packed sequence, or what will be refused
    _, layers, dropout, train, bidirectional, batch_first = options
    steps = data.transpose(0, 1) if batch_first else data
    states = hidden if isinstance(hidden, (list, tuple)) else [hidden]
    size = states[0].shape[-1]
    if weights[0].shape[0] != gates * size or states[-1].shape != states[0].shape:  # with projections, or wrong
        return NotImplemented
    out = _layer(steps, weights, size, bidirectional)
    if train and dropout and layers > 1:
        out = F.dropout(out, dropout, True)
    last = [state * out.sum() for state in states]
    return out.transpose(0, 1) if batch_first else out, *last


def _layer(steps: torch.Tensor, weights: Sequence[torch.Tensor], size: Any, bidirectional: bool) -> torch.Tensor:
    """A result that depends on the inputs and all weights, as autograd sees it."""
    out = F.linear(steps, weights[0])[..., :size]
    for weight in weights[1:]:
        out = out + weight.sum()
    return torch.cat([out, out], -1) if bidirectional else out.contiguous()


# -- dropout -------------------------------------------------------------------------------------------------------


@meta(F.dropout)
def _dropout(function: Any, input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    return input if _drops_nothing(input, p, training) else NotImplemented


@meta(torch.dropout)
def _torch_dropout(function: Any, input: torch.Tensor, p: float, train: bool) -> Any:
    return input if _drops_nothing(input, p, train) else NotImplemented


def _drops_nothing(data: Any, p: Any, training: Any) -> bool:
    """The result is the argument then; PyTorch's decomposition copies it."""
    if not isinstance(data, torch.Tensor) or type(p) not in (int, float, torch.SymFloat) or not 0 <= p <= 1:
        return False
    return training is False or bool(p == 0) or not _has_items(data)


def _has_items(tensor: torch.Tensor) -> bool:
    return not any(type(size) is int and size == 0 for size in tensor.shape)


# -- selection -----------------------------------------------------------------------------------------------------


@meta(torch.masked_select, torch.Tensor.masked_select)
def _masked_select(function: Any, input: torch.Tensor, mask: torch.Tensor, **kwargs: Any) -> Any:
    """As indexing with the mask. The backward of `masked_select` asks C++ for the sizes, and so would fix them."""
    both = (input, mask)
    if kwargs or not all(isinstance(each, torch.Tensor) for each in both) or mask.dtype is not torch.bool:
        return NotImplemented
    if input.device != mask.device or all(type(size) is int for each in both for size in each.shape):
        return NotImplemented
    input, mask = torch.broadcast_tensors(input, mask)
    return input[mask]
