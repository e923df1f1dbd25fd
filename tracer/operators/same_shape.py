"""Elementwise operators on tensors of one shape, some size of which may be 0 or 1: the result has that shape; nothing is asked.

PyTorch's own rules ask of each size whether it is 1, to broadcast, and 0, for strides: with sizes that are not specialised for 0
and 1, every such question is a guard, and a trace more. Here the operator runs on small stand-ins, which tell the dtype.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from shapes.polynomial import IntExpr
from tracer.operators import layout
from tracer.operators.facts import facts_of
from tracer.operators.layout import all_same
from tracer.operators.results import as_new_tensor

if TYPE_CHECKING:
    from tracer.graph.fakes.fake_mode import FakeMode

_NUMBERS = (int, float, bool, complex, type(None), str)


def is_computed_by_element(func: Any) -> bool:
    """Whether an operator gives one new tensor, each element of which is computed from the elements at its place."""
    facts = facts_of(func)
    return facts.elementwise and facts.gives_one_new_tensor and not facts.random and not facts.is_view


def same_shape_result(mode: FakeMode, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> FakeTensor | None:
    """The result, or None where PyTorch's own rule has to be asked."""
    if not is_computed_by_element(func) or not all(type(value) in (*_NUMBERS, torch.dtype) for value in kwargs.values()):
        return None
    shaped = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.dim()]
    if not shaped or not all(_is_plain(mode, arg) for arg in args):
        return None
    first = shaped[0]
    if not all(_same_shape(first, other) for other in shaped[1:]) or not _may_be_small(mode, first.shape):
        return None
    sizes = _exprs(mode, first.shape)
    contiguous = layout.answer(mode.torch_env, "contiguous", sizes, _exprs(mode, first.stride()))
    if mode.torch_env.env.statically_known(contiguous) is not True:
        return None
    small = [_of_two(mode, arg) if isinstance(arg, torch.Tensor) and arg.dim() else arg for arg in args]
    result = mode.run_operator(func, (), small, kwargs)
    if not isinstance(result, FakeTensor) or list(result.shape) != [2] * first.dim() or not result.is_contiguous():
        return None
    strides = [mode.torch_env.wrap(stride) for stride in layout.dense_strides(sizes)]
    return as_new_tensor(result, first.shape, strides).make(mode, args)


def _is_plain(mode: FakeMode, arg: Any) -> bool:
    if type(arg) is not FakeTensor:
        return type(arg) in _NUMBERS
    plain = arg.fake_mode is mode and arg.constant is None and arg.layout is torch.strided
    return plain and not (arg.is_conj() or arg.is_neg() or arg.is_quantized)


def _same_shape(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Known without asking."""
    return a.device == b.device and all_same(a.shape, b.shape) and all_same(a.stride(), b.stride())


def _may_be_small(mode: FakeMode, sizes: Sequence[Any]) -> bool:
    """Whether a symbolic size may be 0 or 1; no size but the first may be 0, or strides would have to tell."""
    env = mode.torch_env.env
    lows = [size if type(size) is int else env.bounds(layout.expression(size))[0] for size in sizes]
    symbolic = any(type(size) is not int and low < 2 for size, low in zip(sizes, lows))
    return symbolic and all(low >= 1 for low in lows[1:])


def _exprs(mode: FakeMode, numbers: Sequence[Any]) -> list[IntExpr]:
    integer = mode.torch_env.algebra.integer
    return [integer(number) if type(number) is int else layout.expression(number) for number in numbers]


def _of_two(mode: FakeMode, tensor: FakeTensor) -> FakeTensor:
    """A fake of the same rank and kind, each size of which is 2."""
    meta = torch.empty([2] * tensor.dim(), dtype=tensor.dtype, device="meta", requires_grad=tensor.requires_grad)
    return FakeTensor(mode, meta, tensor.fake_device)
