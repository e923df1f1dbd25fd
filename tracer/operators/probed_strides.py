"""Operators whose real results have other strides than PyTorch's rules for fake tensors say. The strides are found by a probe:
the operator is run, if one of its arguments is not contiguous.

It is run on tensors of zeros with the sizes and strides of this call. The order of the dims of the result holds for symbolic
sizes, too, provided that whatever it may depend on is the same in every call: how the strides of each argument compare, and which
sizes are 0 or 1. Conditions on the symbols make sure of that; each may become a guard.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch._subclasses.fake_tensor import FakeTensor

from shapes.symbols import Kind
from tracer.operators.facts import facts_of, leaves
from tracer.operators.layout import all_same, dense_strides, hint, hints
from tracer.operators.probes import run_on_zeros
from tracer.operators.results import laid_out
from tracer.operators.table import MOST_ELEMENTS

if TYPE_CHECKING:
    from tracer.graph.fakes.fake_mode import FakeMode

_aten = torch.ops.aten


class LayoutPolicy(Protocol):
    """How strides that were found are used: it differs between fakes of a trace and fakes of a compiler."""

    def rely_on(self, condition: bool | torch.SymBool) -> None:
        """Makes sure that a condition, which holds in this call, holds in all other calls of the entry."""

    def lay_out(self, args: Sequence[Any], fake: FakeTensor, strides: Sequence[Any]) -> Any:
        """A fake like `fake` with these strides."""


def with_probed_strides(policy: LayoutPolicy, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
    """`result`, with the strides that the operator gives when it runs."""
    tensors = [leaf for leaf in leaves(args, kwargs) if isinstance(leaf, torch.Tensor)]
    row = facts_of(func).row
    if not can_be_probed(tensors, row.most):
        return result
    if not row.contiguous_too and all(map(is_always_contiguous, tensors)):
        return result
    for tensor in tensors:
        _rely_on_layout(policy, tensor)
    if not row.contiguous_too and all(map(is_contiguous_now, tensors)):
        return result
    real = run_on_zeros(func, args, kwargs)
    if isinstance(result, FakeTensor):
        return _laid_out_as(policy, func, args, tensors, result, real)
    if not isinstance(result, (tuple, list)) or not isinstance(real, (tuple, list)) or len(real) != len(result):
        return result
    items = [_laid_out_as(policy, func, args, tensors, fake, item) for fake, item in zip(result, real)]
    return items if isinstance(result, list) else tuple(items)


def can_be_probed(tensors: list[torch.Tensor], most: int = MOST_ELEMENTS) -> bool:
    """Whether an operator can be run on zeros in place of these tensors: all are strided and on the CPU, no size depends on data,
    and none has more than `most` elements."""
    if any(tensor.layout is not torch.strided or tensor.device.type != "cpu" for tensor in tensors):
        return False
    if any(hint(number) is None for tensor in tensors for number in (*tensor.shape, *tensor.stride())):
        return False
    return all(math.prod(hints(tensor.shape)) <= most for tensor in tensors)


def is_contiguous_now(tensor: torch.Tensor) -> bool:
    """Whether a tensor has, in this call, the strides of a new contiguous tensor. Of sizes that depend on data: in every call."""
    if None in hints(tensor.shape):
        return all_same(tensor.stride(), dense_strides(tensor.shape))
    return hints(tensor.stride()) == dense_strides(hints(tensor.shape))


def is_always_contiguous(tensor: torch.Tensor) -> bool:
    """As `is_contiguous_now`, in every call: sizes and strides show it as expressions, without a guard."""
    return is_contiguous_now(tensor) and all_same(tensor.stride(), dense_strides(tensor.shape))


def _rely_on_layout(policy: LayoutPolicy, tensor: torch.Tensor) -> None:
    """Relies on all comparisons by which C decides how a tensor lies in memory: of its strides, of the sizes of dims with equal
    strides, and of each stride with the extent of the next inner dim (is there a gap?)."""
    sizes, strides = tuple(tensor.shape), tuple(tensor.stride())
    for size in sizes:
        _compare(policy, (0, 1, size))
    _compare(policy, (0, 1, *strides))
    order = sorted(range(len(sizes)), key=lambda dim: (hint(strides[dim]), hint(sizes[dim])))
    for dims in order, [dim for dim in order if hint(sizes[dim]) != 1]:
        for inner, outer in itertools.pairwise(dims):
            if hint(strides[inner]) == hint(strides[outer]):
                _compare(policy, (sizes[inner], sizes[outer]))
            else:
                _compare(policy, (strides[inner] * sizes[inner], strides[outer]))


def _compare(policy: LayoutPolicy, numbers: Iterable[Any]) -> None:
    """Relies on the order of these numbers in this call."""
    for a, b in itertools.pairwise(sorted(numbers, key=hint)):
        policy.rely_on(a == b if hint(a) == hint(b) else a < b)


def _laid_out_as(policy: LayoutPolicy, func: Any, args: Sequence[Any], tensors: list[torch.Tensor], fake: Any, real: Any) -> Any:
    if type(fake) is not FakeTensor or not isinstance(real, torch.Tensor) or any(fake is tensor for tensor in tensors):
        return fake
    if hints(fake.shape) != tuple(real.shape):
        return fake
    seen = tuple(real.stride())
    strides = _of_view(policy, fake, seen) if func is _aten.view.default else None
    if strides is None:
        strides = _strides(policy, fake, seen, tensors)
    if strides is None or all_same(strides, fake.stride()):
        return fake
    if getattr(func, "is_view", False):
        return _aten.as_strided.default(fake, fake.shape, strides, fake.storage_offset())
    return policy.lay_out(args, fake, strides)


def _of_view(policy: LayoutPolicy, fake: FakeTensor, seen: tuple[int, ...]) -> Sequence[Any] | None:
    """The strides of a view with elements. In C, the stride of a dim of size 1 is the extent of the dim inside of it; PyTorch's
    rule keeps that of the argument where the shapes are equal. None if the strides in this call (`seen`) are not these."""
    known, strides = hints(fake.shape), list(fake.stride())
    for dim in range(fake.dim() - 2, -1, -1):
        if known[dim] == 1:
            strides[dim] = fake.shape[dim + 1] * strides[dim + 1]
    if 0 in known or hints(strides) != seen:
        return None
    for size in fake.shape:
        _compare(policy, (0, 1, size))
    return strides


def _strides(policy: LayoutPolicy, fake: FakeTensor, seen: tuple[int, ...], tensors: list[torch.Tensor]) -> Sequence[Any] | None:
    """The strides of a result as expressions, from those that it has in this call (`seen`); None if `fake` has them already."""
    if all(type(number) is int for tensor in (fake, *tensors) for number in (*tensor.shape, *tensor.stride())):
        return seen
    known = hints(fake.shape)
    for size in fake.shape:
        _compare(policy, (0, 1, size))
    sizes = [number if number < 2 else size for size, number in zip(fake.shape, known)]
    order = sorted(range(fake.dim()), key=lambda dim: (seen[dim], known[dim] != 1, -dim))
    strides = list(dense_strides(sizes, order))
    for dim, stride in enumerate(seen):
        kept = known[dim] == 1 or 0 in known  # no element is found by this stride, so C may have kept that of an argument
        given = [tensor.stride()[dim] for tensor in tensors if kept and tensor.dim() == fake.dim()]
        found = [each for each in (strides[dim], *given) if hint(each) == stride]
        if not found:
            return None if hints(fake.stride()) == seen else _as_in_this_call(policy, seen, (fake, *tensors))
        _compare(policy, found)
        strides[dim] = found[0]
    return strides


def _as_in_this_call(policy: LayoutPolicy, seen: tuple[int, ...], tensors: Iterable[torch.Tensor]) -> tuple[int, ...]:
    for number in itertools.chain.from_iterable((*tensor.shape, *tensor.stride()) for tensor in tensors):
        policy.rely_on(number == hint(number))
    return seen


class LayoutInTrace:
    """For fakes of a trace. A condition that depends on whether a size is 0 or 1 becomes a guard only in a trace that
    `asks_layout`; in others the layout is a guess, and noted as one."""

    def __init__(self, mode: FakeMode) -> None:
        self._mode = mode

    def rely_on(self, condition: Any) -> None:
        adapter = self._mode.torch_env
        if not isinstance(condition, torch.SymBool) or adapter.env.suppressed:
            return
        value = condition.node.value
        if adapter.env.statically_known(value) is not None:
            return
        sizes = [symbol for symbol in adapter.algebra.symbols(value) if symbol.kind is not Kind.STRIDE]
        lows = (adapter.env.bounds(symbol.expr)[0] for symbol in sizes)
        if self._mode.asks_layout or not any(low in (0, 1) for low in lows):
            adapter.decide(value)
        else:
            self._mode.note_layout_guessed()

    def lay_out(self, args: Sequence[Any], fake: FakeTensor, strides: Sequence[Any]) -> Any:
        return laid_out(self._mode, args, fake, strides)


# -- functions that PyTorch decomposes into other operators before a fake mode sees them ---------------------------


def laid_out_as_probed(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
    """A result of the function, with the strides that it gives when it runs."""
    if type(result) is not FakeTensor:
        return result
    return with_probed_strides(_LayoutWithGradients(result.fake_mode), function, args, kwargs, result)


class _LayoutWithGradients(LayoutInTrace):
    def lay_out(self, args: Sequence[Any], fake: FakeTensor, strides: Sequence[Any]) -> Any:
        """As `LayoutInTrace.lay_out`; the gradient of the new tensor goes to the old one."""
        if not fake.requires_grad:
            return super().lay_out((), fake, strides)
        return _Moved.apply(super().lay_out, fake, strides)


class _Moved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lay_out: Callable[..., Any], fake: FakeTensor, strides: Sequence[Any]) -> Any:
        return lay_out((), fake.detach(), strides)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return None, gradient, None
