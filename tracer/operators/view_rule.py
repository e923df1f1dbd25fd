"""The rule of `view`. PyTorch's rule for fakes builds the new dims from left to right, and asks on its way whether sizes are 1,
of dims, too, that the view leaves alone. Here, as in C, dims are taken from the innermost outwards, in runs without gaps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from tracer.operators.layout import expression, hint
from tracer.operators.meta import meta

if TYPE_CHECKING:
    from shapes.polynomial import IntExpr
    from tracer.graph.symbols.shape_env_adapter import TorchShapeEnv

aten = torch.ops.aten


@meta(aten.view.default, aten._unsafe_view.default)
def _viewed(func: Any, tensor: torch.Tensor, shape: Sequence[Any]) -> Any:
    """The view, where expressions show how it lies for all sizes but 0 and 1, for which its strides are a guess."""
    if type(tensor) is not FakeTensor or tensor.layout is not torch.strided or not tensor.dim():
        return NotImplemented
    mode, numbers = tensor.fake_mode, (*tensor.shape, *tensor.stride(), *shape)
    if mode.asks_layout or all(type(each) is int for each in numbers) or any(hint(each) is None for each in numbers):
        return NotImplemented
    adapter = mode.torch_env
    old, strides, new = ([_expr(adapter, each) for each in group] for group in (tensor.shape, tensor.stride(), shape))
    sizes = _sizes(adapter, old, new)
    found = None if sizes is None else _strides(adapter, old, strides, sizes)
    if sizes is None or found is None:
        return NotImplemented
    if any(size.const is None and adapter.env.bounds(size)[0] < 2 for size in (*old, *sizes)):
        mode.note_layout_guessed()
    wrapped = [[adapter.wrap(number) for number in group] for group in (sizes, found)]
    return aten.as_strided.default(tensor, *wrapped, tensor.storage_offset())


def _expr(adapter: TorchShapeEnv, number: Any) -> IntExpr:
    return adapter.algebra.integer(number) if type(number) is int else expression(number)


def _sizes(adapter: TorchShapeEnv, old: Sequence[IntExpr], new: Sequence[IntExpr]) -> list[IntExpr] | None:
    """The sizes of the view, that of a -1 worked out; None where they are not known to fit."""
    algebra, count, product = adapter.algebra, adapter.algebra.one, adapter.algebra.one
    for size in old:
        count = algebra.mul(count, size)
    left_out = [dim for dim, size in enumerate(new) if size.const == -1]
    for size in new:
        if size.const != -1:
            if adapter.env.bounds(size)[0] < (1 if left_out else 0):
                return None
            product = algebra.mul(product, size)
    if not left_out:
        return list(new) if product is count else None
    rest = algebra.divide_exactly(count, product) if len(left_out) == 1 and count.const != 0 else None
    return None if rest is None else [rest if dim in left_out else size for dim, size in enumerate(new)]


def _strides(
    adapter: TorchShapeEnv, old: Sequence[IntExpr], strides: Sequence[IntExpr], new: Sequence[IntExpr]
) -> list[IntExpr] | None:
    """The strides of a view with the sizes `new`; None where it is not known whether there is one."""
    algebra, left, found = adapter.algebra, list(new), list[Any]()
    dim = len(old)
    while dim:
        dim -= 1
        inner, count = strides[dim], old[dim]
        while dim and (old[dim - 1].const == 1 or strides[dim - 1] is algebra.mul(count, inner)):
            dim -= 1
            count = algebra.mul(count, old[dim])
        made = algebra.one
        while left and (made is not count or left[-1].const == 1):
            found.append(algebra.mul(made, inner))
            made = algebra.mul(made, left.pop())
        if made is not count:
            return None
    return None if left else found[::-1]
