"""Fake tensors as results of operators: what one is made of, so that it can be made again or with other strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager

if TYPE_CHECKING:
    from tracer.graph.fakes.fake_mode import FakeMode


class NotCacheable(Exception):
    """A call whose result cannot be made again from its key."""


def dispatch_keys(tensor: torch.Tensor) -> int:
    """The dispatch keys as one number: conj, neg, quantized, inference and autograd state."""
    return int(torch._C._dispatch_keys(tensor).raw_repr())


class SameArgument(NamedTuple):
    """An operator in place returned its argument."""

    position: int


class Constant(NamedTuple):
    """A result that is None or an int."""

    value: Any


def laid_over(
    meta: torch.Tensor, storage: torch.UntypedStorage, offset: Any, shape: Sequence[Any], strides: Sequence[Any]
) -> torch.Tensor:
    """`meta`, an empty tensor, after it was put over this storage, which grows if it is too small. `set_` computes whether the
    tensor is contiguous, perhaps without a guard, and C++ keeps the answer; `as_strided_` makes it drop that."""
    with torch.no_grad():
        return meta.set_(storage, offset, shape, strides).as_strided_(shape, strides, offset)


class NewTensor(NamedTuple):
    """A tensor with storage of its own, or (a view) with that of an argument."""

    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    offset: Any
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool
    conj: bool
    neg: bool
    keys: int
    viewed: int | None  # position of the argument that it is a view of

    def make(self, mode: FakeMode, args: Sequence[Any]) -> FakeTensor:
        env = mode.torch_env.env
        with in_kernel_invocation_manager(mode):
            env.suppressed += 1  # what the layout implies was decided when the result was computed
            try:
                meta = self._meta(None if self.viewed is None else args[self.viewed])
            finally:
                env.suppressed -= 1
        if self.conj:
            torch._C._set_conj(meta, True)
        if self.neg:
            torch._C._set_neg(meta, True)
        return mode.fake_of(meta, self.device)

    def _meta(self, viewed: FakeTensor | None) -> torch.Tensor:
        if viewed is None:
            return torch.empty_strided(
                self.shape, self.strides, dtype=self.dtype, device="meta", requires_grad=self.requires_grad
            )
        meta = torch.empty(0, dtype=self.dtype, device="meta", requires_grad=self.requires_grad)
        return laid_over(meta, viewed.untyped_storage(), self.offset, self.shape, self.strides)


Output = SameArgument | Constant | NewTensor


class CachedResult:
    """The results of a call, to be made again for equal arguments."""

    __slots__ = ("outputs", "is_tuple")

    def __init__(self, outputs: tuple[Output, ...], is_tuple: bool) -> None:
        self.outputs = outputs
        self.is_tuple = is_tuple

    def make(self, mode: FakeMode, args: Sequence[Any]) -> Any:
        """The results for the present arguments. Raises NotCacheable if one would have other dispatch keys than when it was
        computed."""
        made = []
        for output in self.outputs:
            if type(output) is NewTensor:
                tensor = output.make(mode, args)
                if dispatch_keys(tensor) != output.keys:
                    raise NotCacheable("another dispatch key")
                made.append(tensor)
            else:
                made.append(args[output.position] if type(output) is SameArgument else output.value)  # type: ignore[union-attr]  # NewTensor was above
        return tuple(made) if self.is_tuple else made[0]


def as_new_tensor(
    tensor: FakeTensor, shape: Sequence[Any], strides: Sequence[Any], offset: Any = 0, viewed: int | None = None
) -> NewTensor:
    """How to make a tensor like this one, of this shape and with these strides."""
    return NewTensor(
        tuple(shape),
        tuple(strides),
        offset,
        tensor.dtype,
        tensor.fake_device,
        tensor.requires_grad,
        tensor.is_conj(),
        tensor.is_neg(),
        dispatch_keys(tensor),
        viewed,
    )


def laid_out(mode: FakeMode, args: Sequence[Any], result: FakeTensor, strides: Sequence[Any]) -> FakeTensor:
    """A new tensor like the result of an operator, with other strides."""
    return as_new_tensor(result, result.shape, strides).make(mode, args)


# -- of operators that are not run while tracing -----------------------------------------------------------------


class _Made(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, like: torch.Tensor, *read: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*read)
        return fresh(like)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return None, *(fresh(tensor) for tensor in ctx.saved_tensors)


def fresh(like: torch.Tensor) -> torch.Tensor:
    """A tensor of the same kind in memory of its own."""
    return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device)


def result_of(like: torch.Tensor, read: list[torch.Tensor]) -> torch.Tensor:
    """A new tensor; autograd sees that it depends on `read`."""
    return _Made.apply(like.detach(), *read)
