"""Rules for operators whose results have simple metadata, which PyTorch finds by running a long decomposition on fakes, or gets
wrong. They are called below autograd.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from tracer.operators.layout import hint
from tracer.operators.meta import meta
from tracer.operators.probed_strides import is_always_contiguous

aten = torch.ops.aten


@meta(aten._native_batch_norm_legit_no_training.default)
def _normalised_by_statistics(
    func: Any,
    input: torch.Tensor,
    weight: Any,
    bias: Any,
    running_mean: torch.Tensor,
    running_var: torch.Tensor,
    momentum: float,
    eps: float,
) -> Any:
    """Batch norm with given statistics: a result of the input's shape, and two empty ones, since the CPU saves no statistics."""
    if input.device.type != "cpu" or not input.dtype.is_floating_point or input.dim() < 2:
        return NotImplemented
    static = all(type(size) is int for size in (*input.shape, *input.stride()))
    if not (input.is_contiguous() if static else is_always_contiguous(input)):
        return NotImplemented
    for each in (weight, bias, running_mean, running_var):
        if each is not None and (tuple(each.shape) != (input.shape[1],) or each.device != input.device):
            return NotImplemented
        if each is not None and not each.dtype.is_floating_point:
            return NotImplemented
    return input.new_empty(input.shape), running_mean.new_empty((0,)), running_var.new_empty((0,))


@meta(aten.native_dropout.default)
def _native_dropout(func: Any, input: torch.Tensor, p: float, train: Any) -> Any:
    """Where nothing is dropped, a copy; PyTorch's decomposition gives the argument."""
    if train is None or train:
        return NotImplemented
    return torch.clone(input), torch.ones_like(input, dtype=torch.bool)


@meta(aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims)
def _squeezed(func: Any, input: torch.Tensor, dims: int | Sequence[int] | None = None) -> Any:
    """Which dims go depends on their sizes. PyTorch keeps a dim whose size depends on data; here that is an assumption, which is
    checked when the graph runs."""
    given = range(input.dim()) if dims is None else (dims,) if isinstance(dims, int) else dims
    for dim in given:
        if -input.dim() <= dim < input.dim() and hint(input.shape[dim]) is None:
            torch._check(input.shape[dim] != 1)
    return NotImplemented


@meta(aten.stack.default)
def _stacked(func: Any, tensors: Sequence[torch.Tensor], dim: int = 0) -> Any:
    """As in C: joined, and what was joined is viewed as two dims, each by its own rule. Since torch 2.14, PyTorch does this where
    these rules are not met, and its own ask of every size whether it is 1."""
    if not tensors or any(type(each) is not FakeTensor or each.layout is not torch.strided for each in tensors):
        return NotImplemented
    first, *others = tensors
    count = first.dim() + 1
    if not -count <= dim < count or any(each.dim() != first.dim() for each in others):
        return NotImplemented
    for place, other in enumerate(others, 1):
        _check_sizes(first, other, place)
    dim %= count
    if dim == first.dim():
        return torch.cat([each.unsqueeze(dim) for each in tensors], dim)
    return torch.cat(tensors, dim).view(*first.shape[:dim], len(tensors), *first.shape[dim:])


def _check_sizes(first: torch.Tensor, other: torch.Tensor, place: int) -> None:
    def words() -> str:
        sizes = f"{list(first.shape)} at entry 0 and {list(other.shape)} at entry {place}"
        return f"stack expects each tensor to be equal size, but got {sizes}"

    for one, another in zip(first.shape, other.shape):
        torch._check(one == another, words)


@meta(aten.select.int, aten.select_scatter.default)
def _selected(func: Any, *args: Any, **kwargs: Any) -> Any:
    """An index that depends on data has to lie in the dim; a compiler that takes that for granted reads foreign memory."""
    given = (args[0], *args[2:]) if func is aten.select_scatter.default else args
    if not kwargs and len(given) == 3 and -given[0].dim() <= given[1] < given[0].dim():
        input, dim, index = given
        size = input.shape[dim]
        if hint(index) is None or hint(size) is None:
            words = f"select(): index {{}} out of range for tensor of that size at dimension {dim}"
            torch._check_index(index >= -size, lambda: words.format(index))
            torch._check_index(index < size, lambda: words.format(index))
    return NotImplemented


@meta(aten.max.default, aten.min.default, aten.max.dim, aten.min.dim, aten.median.dim, aten.nanmedian.dim, aten.mode.default)
def _chosen_of_elements(func: Any, input: torch.Tensor, dim: int | None = None, *args: Any, **kwargs: Any) -> Any:
    """Where there is nothing to choose from, the operator raises; PyTorch's rules for fakes give a result."""
    name, whole = func._opname, dim is None and func is not aten.mode.default
    dim = -1 if dim is None else dim
    if input.dim() and (whole or -input.dim() <= dim < input.dim()):
        missing = "to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument."
        ending = missing if whole else f"{dim % input.dim()} to have non-zero size."
        check = torch._check if whole else torch._check_index
        for size in input.shape if whole else (input.shape[dim],):
            if hint(size) is not None:
                check(size != 0, lambda: f"{name}(): Expected reduction dim {ending}")
    return NotImplemented


@meta(
    aten.fake_quantize_per_tensor_affine_cachemask.default,
    aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default,
    aten.fake_quantize_per_channel_affine_cachemask.default,
)
def _fake_quantised(func: Any, input: torch.Tensor, *args: Any) -> Any:
    """The rounded tensor, and which elements were within the range. PyTorch has no rule for fakes; where sizes are symbolic, it
    refuses these operators. They check arguments by their data: the kernel does that again."""
    if any(type(size) is not int for size in input.shape):
        return torch.empty_like(input), torch.empty_like(input, dtype=torch.bool)
    return NotImplemented


@meta(aten._new_zeros_with_same_feature_meta.default)
def _zeros_of_a_layout(func: Any, tensor: torch.Tensor, other: torch.Tensor, *, self_num_batch_dims: int = 0) -> Any:
    """A tangent that lies as `other` does, in as much memory. PyTorch's own rule takes no symbolic sizes."""
    if self_num_batch_dims:
        return NotImplemented
    length = other.untyped_storage().nbytes() // other.element_size()
    made = torch.zeros(length, dtype=tensor.dtype, device=tensor.device)
    return made.as_strided(other.shape, other.stride(), other.storage_offset())
