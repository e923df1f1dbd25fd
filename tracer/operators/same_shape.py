"""Elementwise operators on tensors of one shape with sizes that may be 0 or 1: the result has that shape, and no guard is needed.
Those in place give their argument.

PyTorch's own rules compare each size with 1, to broadcast, and with 0, for strides. With sizes that are not specialised for 0
and 1, every such comparison would become a guard, and so need one more trace. Here the operator runs on small stand-ins to find
the dtype.
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


def is_written_by_element(func: Any) -> bool:
    """Whether an operator is the form in place of such a one: it writes to its first argument, and gives it."""
    facts = facts_of(func)
    if not facts.elementwise or facts.random or facts.is_view or [position for position, _ in facts.writes] != [0]:
        return False
    returned = func._schema.returns
    return len(returned) == 1 and returned[0].alias_info is not None


def same_shape_result(mode: FakeMode, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> FakeTensor | None:
    """The result; None if PyTorch's own rule has to find it."""
    in_place = is_written_by_element(func)
    if not (in_place or is_computed_by_element(func)):
        return None
    if not all(type(value) in (*_NUMBERS, torch.dtype) for value in kwargs.values()):
        return None
    shaped = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.dim()]
    if not shaped or not all(_is_plain(mode, arg) for arg in args):
        return None
    first = shaped[0]
    if in_place and first is not args[0]:
        return None
    if not all(_same_shape(first, other) for other in shaped[1:]) or not _may_be_small(mode, first.shape):
        return None
    sizes = _exprs(mode, first.shape)
    contiguous = layout.answer(mode.torch_env, "contiguous", sizes, _exprs(mode, first.stride()))
    if mode.torch_env.env.statically_known(contiguous) is not True:
        return None
    small = [_with_sizes_of_two(mode, arg) if isinstance(arg, torch.Tensor) and arg.dim() else arg for arg in args]
    result = mode.run_operator(func, (), small, kwargs)
    if in_place:
        return args[0] if result is small[0] else None
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
    """Whether two tensors are known, without a guard, to have the same device, sizes and strides."""
    return a.device == b.device and all_same(a.shape, b.shape) and all_same(a.stride(), b.stride())


def _may_be_small(mode: FakeMode, sizes: Sequence[Any]) -> bool:
    """Whether a symbolic size may be 0 or 1, and only the first size may be 0. If another one is 0, the strides depend on it."""
    env = mode.torch_env.env
    lows = [size if type(size) is int else env.bounds(layout.expression(size))[0] for size in sizes]
    symbolic = any(type(size) is not int and low < 2 for size, low in zip(sizes, lows))
    return symbolic and all(low >= 1 for low in lows[1:])


def _exprs(mode: FakeMode, numbers: Sequence[Any]) -> list[IntExpr]:
    integer = mode.torch_env.algebra.integer
    return [integer(number) if type(number) is int else layout.expression(number) for number in numbers]


def _with_sizes_of_two(mode: FakeMode, tensor: FakeTensor) -> FakeTensor:
    """A fake of the same rank and kind, each size of which is 2."""
    meta = torch.empty([2] * tensor.dim(), dtype=tensor.dtype, device="meta", requires_grad=tensor.requires_grad)
    return mode.fake_of(meta, tensor.fake_device)
