"""Elementwise operators on tensors of one shape, some size of which may be 0 or 1: the result has that shape; nothing is asked.

PyTorch's own rules ask of each size whether it is 1, to broadcast, and 0, for strides: with sizes that are not specialised for 0
and 1, every such question is a guard, and a trace more. Here the operator runs on small stand-ins, which tell the dtype.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from shapes.polynomial import IntExpr
from tracer.operators import layout
from tracer.operators.memo import NewTensor, dispatch_keys

if TYPE_CHECKING:
    from tracer.graph.fake_mode import FakeMode

_COPIES = (torch.ops.aten._to_copy.default, torch.ops.aten.clone.default)
_NUMBERS = (int, float, bool, complex, type(None), str)


@functools.cache
def is_elementwise(func: Any) -> bool:
    """Whether an operator gives one new tensor, each element of which is computed from the elements at its place."""
    schema = getattr(func, "_schema", None)
    if schema is None or torch.Tag.nondeterministic_seeded in func.tags:
        return False
    if torch.Tag.pointwise not in func.tags and func not in _COPIES:
        return False
    if func.is_view or len(schema.returns) != 1 or schema.returns[0].alias_info is not None:
        return False
    return all(argument.alias_info is None for argument in schema.arguments)


def same_shape_result(mode: FakeMode, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> FakeTensor | None:
    """The result, or None where PyTorch's own rule has to be asked."""
    if not is_elementwise(func) or not all(type(value) in (*_NUMBERS, torch.dtype) for value in kwargs.values()):
        return None
    shaped = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.dim()]
    if not shaped or not all(_is_plain(mode, arg) for arg in args):
        return None
    first = shaped[0]
    if not all(_same_shape(first, other) for other in shaped[1:]) or not _may_be_small(mode, first.shape):
        return None
    sizes, strides = _exprs(mode, first.shape), _exprs(mode, first.stride())
    contiguous = layout.answer(mode.torch_env, "contiguous", sizes, strides)
    if mode.torch_env.env.statically_known(contiguous) is not True:
        return None
    small = [_stand_in(mode, arg) if isinstance(arg, torch.Tensor) and arg.dim() else arg for arg in args]
    result = mode._dispatch(func, (), small, kwargs)
    if not isinstance(result, FakeTensor) or list(result.shape) != [2] * first.dim() or not result.is_contiguous():
        return None
    like = NewTensor(
        tuple(first.shape),
        tuple(_contiguous_strides(mode, sizes)),
        0,
        result.dtype,
        result.fake_device,
        result.requires_grad,
        result.is_conj(),
        result.is_neg(),
        dispatch_keys(result),
        None,
    )
    return like.make(mode, args)


def _is_plain(mode: FakeMode, arg: Any) -> bool:
    if type(arg) is not FakeTensor:
        return type(arg) in _NUMBERS
    plain = arg.fake_mode is mode and arg.constant is None and arg.layout is torch.strided
    return plain and not (arg.is_conj() or arg.is_neg() or arg.is_quantized)


def _same_shape(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Known without asking: the same numbers and the same expressions, in sizes and strides."""
    if a.dim() != b.dim() or a.device != b.device:
        return False
    return all(map(_is_same, (*a.shape, *a.stride()), (*b.shape, *b.stride())))


def _is_same(a: Any, b: Any) -> bool:
    if type(a) is int or type(b) is int:
        return type(a) is type(b) and a == b
    return a.node.reduced() is b.node.reduced()


def _may_be_small(mode: FakeMode, sizes: Sequence[Any]) -> bool:
    """Whether a symbolic size may be 0 or 1; no size but the first may be 0, or strides would have to tell."""
    env = mode.torch_env.env
    lows = [size if type(size) is int else env.bounds(size.node.reduced())[0] for size in sizes]
    symbolic = any(type(size) is not int and low < 2 for size, low in zip(sizes, lows))
    return symbolic and all(low >= 1 for low in lows[1:])


def _exprs(mode: FakeMode, numbers: Sequence[Any]) -> list[IntExpr]:
    integer = mode.torch_env.algebra.integer
    return [integer(number) if type(number) is int else number.node.reduced() for number in numbers]


def _contiguous_strides(mode: FakeMode, sizes: Sequence[IntExpr]) -> list[Any]:
    strides, step = [], mode.torch_env.algebra.one
    for size in reversed(sizes):
        strides.append(step)
        step = step * size
    return [mode.torch_env.wrap(stride) for stride in reversed(strides)]


def _stand_in(mode: FakeMode, tensor: FakeTensor) -> FakeTensor:
    meta = torch.empty([2] * tensor.dim(), dtype=tensor.dtype, device="meta", requires_grad=tensor.requires_grad)
    return FakeTensor(mode, meta, tensor.fake_device)
