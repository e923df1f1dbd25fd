"""Restores the inputs that a graph wrote to before it failed, so that CPython can run the frame from its start, up to the line
that raises. Called by output code."""

from __future__ import annotations

import torch

LARGEST_COPY = 1 << 20  # elements; larger tensors are not copied before each call

Saved = list[tuple[torch.Tensor, int | None, torch.Tensor | None]]


def save(copies: tuple[bool, ...], *tensors: torch.Tensor) -> Saved:
    """The state of the tensors that a graph is about to write to; `copies` says which of them to copy."""
    return [
        (tensor, _version(tensor), tensor.detach().clone() if copied and _is_copied(tensor) else None)
        for copied, tensor in zip(copies, tensors, strict=True)
    ]


def restore(saved: Saved) -> bool:
    """Restores the tensors and returns True; if one cannot be restored, changes none and returns False."""
    if any(copy is None and (version is None or tensor._version != version) for tensor, version, copy in saved):
        return False
    with torch.no_grad():
        for tensor, _, copy in saved:
            if copy is not None:  # even with the old version: batch norm updates its statistics without counting it
                tensor.copy_(copy)
    return True


def _version(tensor: torch.Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version


def _is_copied(tensor: torch.Tensor) -> bool:
    """Whether a tensor can be copied: on the CPU (other devices report failures too late), small, and without an autograd
    history."""
    return tensor.device.type == "cpu" and tensor.numel() <= LARGEST_COPY and (tensor.is_leaf or not tensor.requires_grad)
