"""Restores the inputs that a graph wrote to before it failed, so that CPython can run the frame from its start, up to the line
that raises. Called by output code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from tracer.graph.fakes.memory_overlap import keeps_elements_apart
from tracer.graph.kernel_launches import launches

# The number of elements up to which a tensor is copied before each call. Behind a write to it the graph may raise (SMALL), or the
# program itself raises if data say so (ANY; see `can_restore`), or nothing may fail (NONE).
NONE, SMALL, ANY = 0, 1 << 20, sys.maxsize

# How it is noticed that a graph has written to a tensor: by its version; by that and the number of launches, for a kernel that
# writes to it, which the version does not count; not at all, where a compiler launches the kernel.
BY_VERSION, BY_LAUNCHES, BY_NOTHING = "version", "launches", "nothing"

_autograd = torch._C._autograd


class _Saved(NamedTuple):
    """A tensor that a graph is about to write to, and how it is now."""

    tensor: torch.Tensor
    noticed: str
    number: Any
    version: int | None
    copy: torch.Tensor | None

    def is_unwritten(self) -> bool:
        """Whether neither a kernel nor anything else is known to have written to the tensor since."""
        return self.number is not None and _NUMBERS[self.noticed](self.tensor) == self.number

    def restore(self) -> None:
        if self.copy is None:
            return
        # Even with the old version: batch norm updates its statistics without counting it.
        with torch.inference_mode() if self.version is None else torch.no_grad():
            self.tensor.copy_(self.copy)
        if self.version is not None:  # what autograd has kept of it is as it was
            _autograd._unsafe_set_version_counter((self.tensor,), (self.version,))


Saved = list[_Saved]


def save(how: tuple[tuple[int, str], ...], *tensors: torch.Tensor) -> Saved:
    """The state of the tensors that a graph is about to write to. `how` says of each up to how many elements to copy it, and how
    a write to it is noticed."""
    return [
        _Saved(
            tensor,
            noticed,
            _NUMBERS[noticed](tensor),
            _version(tensor),
            tensor.detach().clone() if _is_copied(tensor, largest) else None,
        )
        for (largest, noticed), tensor in zip(how, tensors, strict=True)
    ]


def can_restore(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether these inputs are copied before each call for a graph that raises where the program does. They are if they are
    small: their sizes in later calls do not matter."""
    return all(_is_copied(tensor, SMALL) for tensor in tensors) and sum(tensor.numel() for tensor in tensors) <= SMALL


def restore(saved: Saved) -> bool:
    """Restores the tensors and returns True; if one cannot be restored, changes none and returns False."""
    if any(each.copy is None and not each.is_unwritten() for each in saved):
        return False
    for each in saved:
        each.restore()
    return True


def _version(tensor: torch.Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version


def _version_and_launches(tensor: torch.Tensor) -> tuple[int, int] | None:
    version = _version(tensor)
    return None if version is None else (version, launches())


_NUMBERS: dict[str, Callable[[torch.Tensor], Any]] = {
    BY_VERSION: _version,
    BY_LAUNCHES: _version_and_launches,
    BY_NOTHING: lambda tensor: None,
}


def _is_copied(tensor: torch.Tensor, largest: int) -> bool:
    """Whether a tensor is to be copied: on the CPU (other devices report failures too late), not larger than that, with a place
    in memory for each element, and without an autograd history."""
    if largest == NONE or tensor.device.type != "cpu" or tensor.numel() > largest:
        return False
    if tensor.requires_grad and not tensor.is_leaf:
        return False
    plain = type(tensor) is torch.Tensor and tensor.layout is torch.strided
    return plain and tensor.is_contiguous() or keeps_elements_apart(tensor)  # the latter takes as long as the copy of a small one
