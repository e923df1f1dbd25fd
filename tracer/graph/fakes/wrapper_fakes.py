"""Fakes of wrappers. A wrapper is a tensor whose class has a `__torch_dispatch__` of its own.

All fakes of wrappers are of one class, `WrapperFake`, not of the program's class. Torch's dispatcher calls its
`__torch_dispatch__` with every operator, and that calls `FakeMode.dispatched`, which traces the program's `__torch_dispatch__`.
The program's own code does not run on fakes.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tracer.graph_breaks import unsupported
from tracer.sources.reading import type_dict

if TYPE_CHECKING:
    from tracer.graph.fakes.fake_mode import FakeMode
    from tracer.graph.fakes.flattened import Flattened, Form


class WrapperFake(torch.Tensor):
    """Sizes, strides, dtype, device and autograd state of a tensor of class `wrapper`."""

    wrapper: type
    fake_mode: FakeMode
    flattened: Flattened | None = None  # of one that exists before the trace, if a backend that compiles is given it
    form: Form | None = None  # of one that the graph makes for a backend that compiles
    held: Mapping[str, torch.Tensor] = types.MappingProxyType({})  # the tensors in the attributes of one that the trace makes
    numbers: tuple[Any, ...] = ()  # and the symbolic numbers in them

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        met = wrappers_in((args, kwargs))
        dispatched = met[0].fake_mode.dispatched
        if dispatched is None:  # no frame is being traced: the tracer itself, or a backend, calls the operator
            unsupported("tensor-subclass", cls=met[0].wrapper.__qualname__, source=f"{func}, which the program does not call")
        return dispatched(func, tuple(args), dict(kwargs or {}), met)

    def __repr__(self) -> str:
        return f"WrapperFake({self.wrapper.__qualname__}, size={tuple(self.shape)})"


# Attributes of torch.Tensor that a wrapper's class may redefine: operations do not call them on their arguments.
_HARMLESS_TO_DEFINE = frozenset(
    "__module__ __qualname__ __doc__ __dict__ __weakref__ __annotations__ __slots__ __new__ __init__ __torch_dispatch__ "
    "__torch_function__ __tensor_flatten__ __tensor_unflatten__ __repr__ __str__ __format__ __reduce__ __reduce_ex__ "
    "__getstate__ __setstate__ __init_subclass__ __class_getitem__ __orig_bases__ __parameters__ __static_attributes__ "
    "__firstlineno__ __abstractmethods__ _abc_impl __match_args__".split()
)


def overridden_methods(cls: type) -> set[str]:
    """The names that a wrapper's class and torch.Tensor both define."""
    own = cls.__mro__[: cls.__mro__.index(torch.Tensor)]
    names = {name for base in own for name in type_dict(base)} - _HARMLESS_TO_DEFINE
    return {name for name in names if hasattr(torch.Tensor, name)}


def refuse_overridden(target: Any, met: Sequence[WrapperFake]) -> None:
    """Breaks the graph for an operation that calls methods of its arguments by name, if a wrapper's class overrides methods. When
    the graph runs, such a call would run the program's method, which was not traced."""
    for wrapper in met:
        names = overridden_methods(wrapper.wrapper)
        method = getattr(torch.Tensor, target) if isinstance(target, str) else target
        if names and (target in names or isinstance(method, types.FunctionType)):
            name = getattr(target, "__name__", target)
            unsupported("tensor-subclass", cls=wrapper.wrapper.__qualname__, source=f"{name}, where methods are overridden")


def wrappers_in(structure: Any) -> list[WrapperFake]:
    """The wrappers in the arguments of an operation, from left to right."""
    if type(structure) is WrapperFake:
        return [structure]
    if isinstance(structure, dict):
        structure = structure.values()
    elif not isinstance(structure, (tuple, list)):
        return []
    return [wrapper for item in structure for wrapper in wrappers_in(item)]


def wrapper_fake(mode: FakeMode, cls: type, sizes: Sequence[Any], **metadata: Any) -> WrapperFake:
    """A fake of a wrapper of class `cls`. `metadata` are the keyword arguments of `torch.Tensor._make_wrapper_subclass`."""
    made: WrapperFake = torch.Tensor._make_wrapper_subclass(WrapperFake, sizes, **metadata)
    made.wrapper, made.fake_mode = cls, mode
    mode.note_wrapper()
    return made


class _ComputedBefore(torch.autograd.Function):
    """Gives a fake a node in autograd's graph, in place of the operation that computed the real tensor before the trace. A
    backward pass that comes there breaks the graph."""

    @staticmethod
    def forward(ctx: Any, leaf: torch.Tensor, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        return make()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        unsupported("autograd-in-trace", name="a gradient that flows into what was computed before the trace")


def with_history(make: Callable[[], torch.Tensor]) -> torch.Tensor:
    """What `make` returns, as a tensor that requires a gradient and is not a leaf, like one computed before the trace."""
    with torch.enable_grad():
        return _ComputedBefore.apply(torch.empty(0, requires_grad=True), make)


class _PythonWasCalled(Exception):
    """Torch called a `__torch_dispatch__` for the metadata of a tensor."""


class _RefusePython(TorchDispatchMode):
    """Torch calls this mode where it would call the `__torch_dispatch__` of a tensor's class."""

    def __torch_dispatch__(self, *arguments: Any) -> Any:
        raise _PythonWasCalled


def has_plain_metadata(tensor: torch.Tensor) -> bool:
    """Whether a wrapper's metadata are those of a plain strided tensor without data: C++ knows its sizes and strides, and it is
    not quantized, nested, conjugated or an inference tensor. No code of the program runs."""
    try:
        with torch._C.DisableTorchFunctionSubclass(), _RefusePython():
            if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested or tensor.is_inference():
                return False
            numbers = *tensor.size(), *tensor.stride(), tensor.storage_offset(), tensor.dim(), tensor.numel()
            plain = all(type(number) is int for number in numbers) and not tensor.is_conj() and not tensor.is_neg()
            return plain and tensor.device.type != "meta" and not _has_data(tensor)
    except _PythonWasCalled:
        return False


def _has_data(tensor: torch.Tensor) -> bool:
    try:
        tensor.untyped_storage().data_ptr()
    except RuntimeError:  # a wrapper has no storage that can be read
        return False
    return True
