"""How the result of an elementwise operator lies in memory where dims of size 0 or 1 leave a choice.

In C, contiguous operands of one shape give a contiguous result; where shapes differ (that of a number does, too), dims are sorted
by the strides of the operands, contiguous or not. PyTorch's rules for fake tensors keep strides in the first case, or
take the result to be contiguous in the second. Only the strides of dims of size 0 or 1 differ, but a program can ask for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from tracer.graph.dispatch_cache import NewTensor, dispatch_keys

if TYPE_CHECKING:
    from tracer.graph.fake_mode import FakeMode

_ALSO = frozenset((torch.ops.aten.floor_divide.default,))  # elementwise, too
_KINDS: dict[type, type] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
_SORTS, _FLATTENS = "sorts", "flattens"
_PROBED = ((1, 1), (7, 1))  # strides of an operand of shape (1, 2)
_OUTCOMES: dict[Any, str] = {((1, 1), (2, 1)): _SORTS, ((2, 1), (2, 1)): _FLATTENS}


_aten = torch.ops.aten
_LIKE = frozenset(
    (
        _aten.empty_like,
        _aten.zeros_like,
        _aten.ones_like,
        _aten.full_like,
        _aten.rand_like,
        _aten.randn_like,
        _aten.randint_like,
    )
)  # keep the strides of their argument, where it has no gaps


class _Undecided(Exception):
    """Sizes would have to be compared that may be in either order."""


def with_real_strides(mode: FakeMode, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
    """`result`, with the strides that C gives it."""
    like_one = getattr(func, "overloadpacket", None) in _LIKE and kwargs.get("memory_format") in (None, torch.preserve_format)
    if not like_one and (torch.Tag.pointwise not in getattr(func, "tags", ()) and func not in _ALSO or func.is_view or kwargs):
        return result
    if type(result) is not FakeTensor or result.dim() < 2 or not any(type(n) is int and n < 2 for n in result.shape):
        return result
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    if any(arg is result or arg.layout is not torch.strided or arg.device.type != "cpu" for arg in tensors):
        return result
    try:
        if like_one:
            strides = tuple(args[0].stride()) if _is_dense(args[0]) else None
        else:
            strides = _strides(mode, func, args, tensors, tuple(result.shape))
        if strides is None or _same(mode, strides, result.stride()):
            return result
    except _Undecided:
        return result
    like = NewTensor(
        tuple(result.shape), strides, 0, result.dtype, result.fake_device, result.requires_grad, result.is_conj(),
        result.is_neg(), dispatch_keys(result), None,
    )  # fmt: skip
    return like.make(mode, args)


def _strides(
    mode: FakeMode, func: Any, args: Sequence[Any], tensors: Sequence[torch.Tensor], sizes: tuple[Any, ...]
) -> tuple[Any, ...] | None:
    """None where PyTorch's rule is right."""
    shaped = [tensor for tensor in tensors if tensor.dim()]
    plain = _filled(mode, sizes, range(len(sizes) - 1, -1, -1))
    if all(_same(mode, tensor.shape, sizes) for tensor in shaped):
        if all(_same(mode, tensor.stride(), plain) for tensor in shaped):
            return plain
        how = _how(func, args)
        if how is _FLATTENS:
            return plain if all(_is_contiguous(mode, tensor) for tensor in shaped) else None
        if how is not _SORTS:
            return None
    return _filled(mode, sizes, _sorted_dims(mode, sizes, [_broadcast(mode, tensor, sizes) for tensor in shaped]))


def _how(func: Any, args: Sequence[Any]) -> str | None:
    """What becomes of operands of one shape: asked of the operator itself, on two elements."""
    found = []
    for strides in _PROBED:
        try:
            with torch.utils._python_dispatch._disable_current_modes():
                small = [_stand_in(arg, strides) if isinstance(arg, torch.Tensor) else _plain(arg) for arg in args]
                result = func(*small)
        except Exception:
            return None
        found.append(result.stride() if isinstance(result, torch.Tensor) else None)
    return _OUTCOMES.get(tuple(found))


def _plain(number: Any) -> Any:
    """A number of the same kind that is no symbol: the layout does not depend on it, and nothing is to be asked of the symbol."""
    kind = _KINDS.get(type(number))
    return number if kind is None else kind(1)


def _stand_in(tensor: torch.Tensor, strides: tuple[int, int]) -> torch.Tensor:
    if not tensor.dim():
        return torch.ones((), dtype=tensor.dtype)
    return torch.empty_strided((1, 2), strides, dtype=tensor.dtype).fill_(1)


def _broadcast(mode: FakeMode, tensor: torch.Tensor, sizes: Sequence[Any]) -> list[Any]:
    """The strides of an operand over the dims of the result; 0 where it is repeated."""
    missing = len(sizes) - tensor.dim()
    repeated = [_is(mode, "eq", size, 1) and not _is(mode, "eq", whole, 1) for size, whole in zip(tensor.shape, sizes[missing:])]
    return [0] * missing + [0 if again else stride for again, stride in zip(repeated, tensor.stride())]


def _is_dense(tensor: torch.Tensor) -> bool:
    """Without gaps or overlaps, in some order of the dims."""
    if not all(type(number) is int for number in (*tensor.shape, *tensor.stride())):
        raise _Undecided
    step = 1
    for stride, size in sorted((stride, size) for size, stride in zip(tensor.shape, tensor.stride()) if size > 1):
        if stride != step:
            return False
        step *= size
    return True


def _is_contiguous(mode: FakeMode, tensor: torch.Tensor) -> bool:
    step: Any = 1
    if any(_is(mode, "eq", size, 0) for size in tensor.shape):
        return True
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride())):
        if not _is(mode, "eq", size, 1):
            if not _is(mode, "eq", stride, step):
                return False
            step = step * size
    return True


def _sorted_dims(mode: FakeMode, sizes: Sequence[Any], operands: Sequence[Sequence[Any]]) -> list[int]:
    """Dims from the innermost on, each moved inwards as long as an operand's strides say so."""
    order = list(range(len(sizes) - 1, -1, -1))
    for start in range(1, len(order)):
        at = start
        for inner in range(start - 1, -1, -1):
            swap = _swaps(mode, order[inner], order[at], sizes, operands)
            if swap:
                order[inner], order[at] = order[at], order[inner]
                at = inner
            elif swap is False:
                break
    return order


def _filled(mode: FakeMode, sizes: Sequence[Any], order: Sequence[int]) -> tuple[Any, ...]:
    """The strides of dims without gaps, the innermost first."""
    plain = list(order) == list(range(len(sizes) - 1, -1, -1))
    strides: list[Any] = [1] * len(sizes)
    step: Any = 1
    for dim in order:
        strides[dim] = step
        step = step * (1 if plain and _is(mode, "eq", sizes[dim], 0) else sizes[dim])
    return tuple(strides)


def _swaps(mode: FakeMode, inner: int, outer: int, sizes: Sequence[Any], operands: Sequence[Sequence[Any]]) -> bool | None:
    """Whether two dims are in the wrong order; None where no operand tells."""
    for strides in operands:
        a, b = strides[inner], strides[outer]
        if _is(mode, "eq", a, 0) or _is(mode, "eq", b, 0):
            continue
        if _is(mode, "lt", a, b):
            return False
        if _is(mode, "lt", b, a) or _is(mode, "lt", sizes[outer], sizes[inner]):
            return True
    return None


def _same(mode: FakeMode, one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(one) == len(other) and all(_is(mode, "eq", a, b) for a, b in zip(one, other))


def _is(mode: FakeMode, relation: str, a: Any, b: Any) -> bool:
    """Known without asking, or nobody knows."""
    if type(a) is type(b) is int:
        return a == b if relation == "eq" else a < b
    algebra = mode.torch_env.algebra
    left, right = [algebra.integer(each) if type(each) is int else each.node.reduced() for each in (a, b)]
    known = mode.torch_env.env.statically_known(algebra.relation(relation, left, right))
    if known is None:
        raise _Undecided
    return known
