"""Which arguments torch passes to `__torch_function__`: found by calling torch itself with stand-ins that report them.

No code of the program runs: every argument that has overrides is replaced by a stand-in of the same kind.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class _Reported(BaseException):
    """Ends a call on stand-ins with what `__torch_function__` was called with. It is no Exception, so torch does not catch it."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        super().__init__(arguments)
        self.arguments = arguments


def _report(cls: type, *arguments: Any) -> Any:
    raise _Reported(arguments)


class _ReportingMode(TorchFunctionMode):
    def __torch_function__(self, *arguments: Any) -> Any:
        raise _Reported(arguments)


@functools.cache
def tensor_stand_in(number: int) -> torch.Tensor:
    """A tensor whose class overrides `__torch_function__` and has no other instance. The same number gives the same tensor."""
    cls = type(f"TensorStandIn{number}", (torch.Tensor,), {"__torch_function__": classmethod(_report)})
    with torch._C.DisableTorchFunction(), torch.inference_mode(False):
        return torch.Tensor._make_subclass(cls, torch.empty(0, device="cpu"))


@functools.cache
def object_stand_in(number: int) -> Any:
    """An object that is no tensor and has a `__torch_function__`."""
    return type(f"StandIn{number}", (), {"__torch_function__": classmethod(_report)})()


def overridden_call(
    function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any], under_mode: bool
) -> tuple[Any, ...] | None:
    """What `__torch_function__` is called with: (func, types, args) and, if there are any, kwargs. None if the call is not
    overridden. Any error is one that torch raises for these arguments."""
    try:
        with torch._C._EnableTorchFunction(), torch.no_grad(), _ReportingMode() if under_mode else contextlib.nullcontext():
            function(*args, **kwargs)
    except _Reported as reported:
        return reported.arguments
    return None


def in_order_of_precedence(values: list[Any], classes: list[type]) -> list[Any]:
    """The first value of each class, in the order in which torch calls their overrides: subclasses before their bases."""
    ordered: list[tuple[Any, type]] = []
    for value, cls in zip(values, classes):
        if all(cls is not other for _, other in ordered):
            place = next((i for i, (_, other) in enumerate(ordered) if type.__subclasscheck__(other, cls)), len(ordered))
            ordered.insert(place, (value, cls))
    return [value for value, _ in ordered]
