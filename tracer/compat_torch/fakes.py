"""Fake tensors, made without what `FakeTensor.__new__` checks of each."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode


class FakeMaker:
    """Makes the fakes of one mode. PyTorch makes the first one on each device; what it holds besides its layout is the same for
    the others."""

    def __init__(self) -> None:
        self._states: dict[torch.device, dict[str, Any] | None] = {}

    def make(self, mode: FakeTensorMode, meta: torch.Tensor, device: torch.device) -> FakeTensor:
        """The fake on `device` of a tensor on the meta device."""
        if device not in self._states:
            first = FakeTensor(mode, meta, device)
            self._states[device] = _state_of(first, mode, meta)
            return first
        state = self._states[device]
        return FakeTensor(mode, meta, device) if state is None else _with_state(state, mode, meta)


def _with_state(state: dict[str, Any], mode: FakeTensorMode, meta: torch.Tensor) -> FakeTensor:
    by_device = {"dispatch_device": True, "device_for_backend_keys": state["_fake_device"]}
    fake: Any = torch.Tensor._make_subclass(FakeTensor, meta, meta.requires_grad, **by_device)
    if mode._allow_unsafe_data_ptr_access:
        torch._C._set_warn_deprecated_on_mutable_data_ptr(fake)
    else:
        torch._C._set_throw_on_mutable_data_ptr(fake)
    vars(fake).update(state)
    fake.fake_mode = mode
    return fake


def _state_of(first: FakeTensor, mode: FakeTensorMode, meta: torch.Tensor) -> dict[str, Any] | None:
    """What a new fake holds besides its mode; None if that is more than torch 2.13 gives it."""
    state = {name: value for name, value in vars(first).items() if name != "fake_mode"}
    if not all(value is None or type(value) is torch.device for value in state.values()):
        return None
    try:
        other = _with_state(state, mode, meta)
    except (TypeError, KeyError, AttributeError):
        return None
    keys = torch._C._dispatch_keys
    alike = keys(first).raw_repr() == keys(other).raw_repr() and vars(first) == vars(other)
    return state if alike and first.device == other.device else None
