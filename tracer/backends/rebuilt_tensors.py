"""Tensors with the metadata and the autograd state of others, made under the fake mode that is active."""

from __future__ import annotations

from typing import Any

import torch

from tracer.graph.fakes.fake_tensors import is_plain_fake, mark_as_parameter


def allocate(tensor: torch.Tensor, sizes: list[Any], strides: list[Any], offset: Any, device: Any) -> torch.Tensor:
    """A new tensor of this layout, over a storage that is large enough."""
    if isinstance(offset, int) and offset == 0:
        return torch.empty_strided(sizes, strides, dtype=tensor.dtype, device=device)
    is_empty = any(isinstance(size, int) and size == 0 for size in sizes)  # and reaches nowhere
    length = offset if is_empty else offset + 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    return torch.empty((length,), dtype=tensor.dtype, device=device).as_strided(sizes, strides, offset).detach()


def with_autograd_state(fake: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.requires_grad:
        data = fake.detach()
        fake = fake.requires_grad_()
        if not tensor.is_leaf:
            fake = fake.clone()
            if is_plain_fake(data):  # a clone is dense
                fake.data = data
    if isinstance(tensor, torch.nn.Parameter):
        mark_as_parameter(fake)
    return fake


def with_conj_and_neg_bits(fake: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_conj():
        torch._C._set_conj(fake, True)
    if tensor.is_neg():
        torch._C._set_neg(fake, True)
    return fake
