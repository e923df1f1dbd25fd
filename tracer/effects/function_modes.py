"""The torch-function modes of the program that are on where a traced frame is called.

The tracer works without them, lest they see its own operations, and traces through what they do. The entry's guard on torch's
state says that modes of the same classes are on, and others what was read of them. So the code of the entry need not ask them: it
runs with all overrides off.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._device import DeviceContext

from tracer import _C


def function_modes() -> list[Any]:
    """The torch-function modes that are on, outermost first; none if all of them only set the default device, which asks for
    no trace of its own: the graph runs under them, and fake tensors are made on that device."""
    stack = [torch._C._get_function_stack_at(place) for place in range(torch._C._len_torch_function_stack())]
    return [] if all(type(mode) is DeviceContext for mode in stack) else stack


def are_traceable() -> bool:
    """Whether calls that are made now can be traced through the modes: nothing has switched overrides off."""
    return not function_modes() or torch._C._is_torch_function_enabled()


@contextlib.contextmanager
def taken_off(modes: list[Any]) -> Iterator[None]:
    """Within, these modes, which are all that are on, are off."""
    for _ in modes:
        torch._C._pop_torch_function_stack()
    try:
        yield
    finally:
        _put_on(modes)


@contextlib.contextmanager
def put_back(modes: list[Any]) -> Iterator[None]:
    """Within, modes that were taken off are on."""
    _put_on(modes)
    try:
        yield
    finally:
        for _ in modes:
            torch._C._pop_torch_function_stack()


def _put_on(modes: list[Any]) -> None:
    for mode in modes:
        torch._C._push_on_torch_function_stack(mode)


def call_without_overrides(function: Callable[..., Any], *args: Any) -> Any:
    """function(*args) while no `__torch_function__` is asked."""
    with torch._C.DisableTorchFunction():
        return function(*args)


def call_with_overrides(function: Callable[..., Any], *args: Any) -> Any:
    """function(*args) as before `call_without_overrides`."""
    with torch._C._EnableTorchFunction():
        return function(*args)


for _function in (call_without_overrides, call_with_overrides):
    _C.never_trace(_function.__code__)
