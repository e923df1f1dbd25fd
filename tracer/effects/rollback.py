"""What a graph that writes to its inputs does when it fails: the inputs are put back, so that CPython can run the frame
from its start and stop where the program really stops. Called by output code."""

from __future__ import annotations

import torch

LARGEST_COPY = 1 << 20  # elements; what is larger is not copied before each call

Saved = list[tuple[torch.Tensor, int | None, torch.Tensor | None]]


def remember(copies: tuple[bool, ...], *tensors: torch.Tensor) -> Saved:
    """The state of tensors that a graph is about to write to; `copies` says which of them are copied for it."""
    return [
        (tensor, _version(tensor), tensor.detach().clone() if copied and _is_copied(tensor) else None)
        for copied, tensor in zip(copies, tensors, strict=True)
    ]


def put_back(saved: Saved) -> bool:
    """Whether all of the tensors are again what they were; where they cannot be, none of them is touched."""
    if any(copy is None and (version is None or tensor._version != version) for tensor, version, copy in saved):
        return False
    with torch.no_grad():
        for tensor, _, copy in saved:
            if copy is not None:  # whatever its version: batch norm counts no update of its statistics
                tensor.copy_(copy)
    return True


def _version(tensor: torch.Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version


def _is_copied(tensor: torch.Tensor) -> bool:
    """Small tensors of the CPU, which alone reports such failures at once, without a history that a copy lacks."""
    return tensor.device.type == "cpu" and tensor.numel() <= LARGEST_COPY and (tensor.is_leaf or not tensor.requires_grad)
