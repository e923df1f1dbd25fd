"""What stands while tracing for a tensor whose class has a `__torch_dispatch__` of its own (a wrapper around other tensors).

It is of a class of the tracer's, not of the program's: torch's dispatcher comes to it with every operator, and it hands on to
`FakeMode.dispatched`, which traces the program's `__torch_dispatch__`. The program's own code does not run on fakes.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tracer.graph_breaks import unsupported
from tracer.sources.reading import type_dict

if TYPE_CHECKING:
    from tracer.graph.fakes.fake_mode import FakeMode


class WrapperFake(torch.Tensor):
    """Sizes, strides, dtype, device and autograd state of a tensor of class `wrapper`."""

    wrapper: type
    fake_mode: FakeMode

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        met = wrappers_in((args, kwargs))
        dispatched = met[0].fake_mode.dispatched
        if dispatched is None:
            unsupported("tensor-subclass", cls=met[0].wrapper.__qualname__, source=f"{func}, which the program does not call")
        return dispatched(func, tuple(args), dict(kwargs or {}), met)

    def __repr__(self) -> str:
        return f"WrapperFake({self.wrapper.__qualname__}, size={tuple(self.shape)})"


# What a class may define that is never called where torch.Tensor's is meant.
_NOT_OVERRIDING = frozenset(
    "__module__ __qualname__ __doc__ __dict__ __weakref__ __annotations__ __slots__ __new__ __init__ __torch_dispatch__ "
    "__torch_function__ __tensor_flatten__ __tensor_unflatten__ __repr__ __str__ __format__ __reduce__ __reduce_ex__ "
    "__getstate__ __setstate__ __init_subclass__ __class_getitem__ __orig_bases__ __parameters__ __static_attributes__ "
    "__firstlineno__ __abstractmethods__ _abc_impl __match_args__".split()
)


def overridden_methods(cls: type) -> set[str]:
    """The names that a wrapper's class and torch.Tensor both define."""
    own = cls.__mro__[: cls.__mro__.index(torch.Tensor)]
    names = {name for base in own for name in type_dict(base)} - _NOT_OVERRIDING
    return {name for name in names if hasattr(torch.Tensor, name)}


def refuse_overridden(target: Any, met: Sequence[WrapperFake]) -> None:
    """An operation that calls methods by name, in the graph, would come to those of the program's class, not to torch's."""
    for wrapper in met:
        names = overridden_methods(wrapper.wrapper)
        method = getattr(torch.Tensor, target) if isinstance(target, str) else target
        if names and (target in names or isinstance(method, types.FunctionType)):
            name = getattr(target, "__name__", target)
            unsupported("tensor-subclass", cls=wrapper.wrapper.__qualname__, source=f"{name}, where methods are overridden")


def wrappers_in(structure: Any) -> list[WrapperFake]:
    """The wrappers in arguments of an operation, in order."""
    if type(structure) is WrapperFake:
        return [structure]
    if isinstance(structure, dict):
        structure = structure.values()
    elif not isinstance(structure, (tuple, list)):
        return []
    return [wrapper for item in structure for wrapper in wrappers_in(item)]


def wrapper_fake(mode: FakeMode, cls: type, sizes: Sequence[Any], **metadata: Any) -> WrapperFake:
    """`metadata` as `torch.Tensor._make_wrapper_subclass` takes them."""
    made: WrapperFake = torch.Tensor._make_wrapper_subclass(WrapperFake, sizes, **metadata)
    made.wrapper, made.fake_mode = cls, mode
    mode.note_wrapper()
    return made


class _Derived(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, leaf: torch.Tensor, made: Any) -> torch.Tensor:
        return made()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        unsupported("autograd-in-trace", name="a gradient of what was computed before")


def with_history(make: Any) -> torch.Tensor:
    """A fake that requires a gradient and is no leaf, as one that was computed before the trace."""
    with torch.enable_grad():
        return _Derived.apply(torch.empty(0, requires_grad=True), make)


class _Asked(Exception):
    """The metadata of a tensor were asked of Python."""


class _Asking(TorchDispatchMode):
    def __torch_dispatch__(self, *arguments: Any) -> Any:
        raise _Asked


def has_plain_metadata(tensor: torch.Tensor) -> bool:
    """Whether a tensor knows its sizes and strides itself, has no data of its own, and nothing else is special about it. No
    code of the program runs: a mode stands before its `__torch_dispatch__`."""
    try:
        with torch._C.DisableTorchFunctionSubclass(), _Asking():
            if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested or tensor.is_inference():
                return False
            numbers = *tensor.size(), *tensor.stride(), tensor.storage_offset(), tensor.dim(), tensor.numel()
            plain = all(type(number) is int for number in numbers) and not tensor.is_conj() and not tensor.is_neg()
            return plain and tensor.device.type != "meta" and not _has_data(tensor)
    except _Asked:
        return False


def _has_data(tensor: torch.Tensor) -> bool:
    try:
        tensor.untyped_storage().data_ptr()
    except RuntimeError:  # the storage of a wrapper is none
        return False
    return True
