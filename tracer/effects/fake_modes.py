"""The FakeTensorMode of the program that is on where a traced frame is called.

The tracer works without it, lest it sees the tracer's own operations. The code of an entry runs under it, as the program would:
the entry's guard on torch's state says that such a mode is on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

_FAKE = torch._C._TorchDispatchModeKey.FAKE


def fake_mode() -> FakeTensorMode | None:
    """The fake mode that is on, if it is the only dispatch mode."""
    if torch._C._len_torch_dispatch_stack() != 1:
        return None
    mode = torch._C._get_dispatch_mode(_FAKE)
    return mode if type(mode) is FakeTensorMode else None


@contextlib.contextmanager
def without(mode: FakeTensorMode | None) -> Iterator[None]:
    """Within, the mode that `fake_mode` found is off."""
    if mode is None:
        yield
        return
    torch._C._unset_dispatch_mode(_FAKE)
    try:
        yield
    finally:
        torch._C._set_dispatch_mode(mode)


@contextlib.contextmanager
def within(mode: FakeTensorMode | None) -> Iterator[None]:
    """Within, a mode that was taken off is on."""
    if mode is None:
        yield
        return
    torch._C._set_dispatch_mode(mode)
    try:
        yield
    finally:
        torch._C._unset_dispatch_mode(_FAKE)
