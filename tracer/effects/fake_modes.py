"""The FakeTensorMode of the program that is on where a traced frame is called.

The tracer works without it, lest it sees the tracer's own operations. The code of an entry runs under it, as the program would:
the entry's guard on torch's state says that such a mode is on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

Switch = Callable[[FakeTensorMode], None]
_FAKE = torch._C._TorchDispatchModeKey.FAKE


def fake_mode() -> FakeTensorMode | None:
    """The fake mode that is on, if it is the only dispatch mode."""
    if torch._C._len_torch_dispatch_stack() != 1:
        return None
    mode = torch._C._get_dispatch_mode(_FAKE)
    return mode if type(mode) is FakeTensorMode else None


def without(mode: FakeTensorMode | None) -> contextlib.AbstractContextManager[None]:
    """Within, the mode that `fake_mode` found is off."""
    return contextlib.nullcontext() if mode is None else _between(mode, _off, _on)


def within(mode: FakeTensorMode | None) -> contextlib.AbstractContextManager[None]:
    """Within, a mode that was taken off is on."""
    return contextlib.nullcontext() if mode is None else _between(mode, _on, _off)


@contextlib.contextmanager
def _between(mode: FakeTensorMode, first: Switch, last: Switch) -> Iterator[None]:
    first(mode)
    try:
        yield
    finally:
        last(mode)


def _on(mode: FakeTensorMode) -> None:
    torch._C._set_dispatch_mode(mode)


def _off(mode: FakeTensorMode) -> None:
    torch._C._unset_dispatch_mode(_FAKE)
