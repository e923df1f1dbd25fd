"""How tensors lie in memory: which numbers are the same, the strides of a tensor without gaps, and questions about the layout of
a tensor with symbolic sizes and strides, answered as boolean expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from shapes.polynomial import IntExpr
from shapes.relations import BoolExpr
from tracer.operators.proxies import SYM_TYPES

if TYPE_CHECKING:
    from shapes.algebra import Algebra
    from tracer.graph.symbols.shape_env_adapter import TorchShapeEnv

_CHANNELS_LAST = {"2d": (1, 3, 2, 0), "3d": (1, 4, 3, 2, 0)}  # innermost dim first


# -- numbers of PyTorch ------------------------------------------------------------------------------------------


def same(a: Any, b: Any) -> bool:
    """Whether two numbers (int or SymInt) are known to be equal in every call. It records no guard."""
    if type(a) is int or type(b) is int:
        return type(a) is type(b) and a == b
    return a.node is b.node or expression(a) == expression(b)


def all_same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(one) == len(other) and all(map(same, one, other))


def expression(number: Any) -> Any:
    """The expression of a SymInt. Of symbols that are known to be equal, it has only one."""
    node = number.node
    return node.reduced() if hasattr(node, "reduced") else node.expr  # ours, or PyTorch's own


def hint(number: Any) -> Any:
    """The number in the traced call; None if it depends on data."""
    return number.node.hint if isinstance(number, SYM_TYPES) else number


def hints(numbers: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([hint(number) for number in numbers])


def _is_zero(size: Any) -> bool:
    return type(size) is int and size == 0


def contiguous_order(rank: int) -> range:
    """The order of the dims of a contiguous tensor, the innermost first."""
    return range(rank - 1, -1, -1)


def dense_strides(
    sizes: Sequence[Any], order: Sequence[int] | None = None, is_empty: Callable[[Any], bool] = _is_zero
) -> tuple[Any, ...]:
    """The strides of a tensor without gaps. `order`: of the dims, the innermost first; that of a contiguous tensor if None.
    `is_empty`: whether a size counts as 1, because it is 0.

    >>> dense_strides((2, 3, 4)), dense_strides((2, 3, 4), (1, 2, 0)), dense_strides((2, 0, 4))
    ((12, 4, 1), (12, 1, 3), (4, 4, 1))
    """
    strides: list[Any] = [1] * len(sizes)
    step: Any = 1
    for dim in contiguous_order(len(sizes)) if order is None else order:
        strides[dim] = step
        step = step * (1 if is_empty(sizes[dim]) else sizes[dim])
    return tuple(strides)


def sorted_dims(rank: int, swaps: Callable[[int, int, bool], bool | None]) -> list[int]:
    """Dims from the innermost on, each moved inwards as long as `swaps(inner, outer, last)` says so: whether two dims are in the
    wrong order; None if nothing tells, and the next one inwards is asked about. `last`: there is no next one."""
    order = list(contiguous_order(rank))
    for start in range(1, rank):
        at = start
        for inner in range(start - 1, -1, -1):
            swap = swaps(order[inner], order[at], inner == 0)
            if swap:
                order[inner], order[at] = order[at], order[inner]
                at = inner
            elif swap is False:
                break
    return order


# -- tensors that exist --------------------------------------------------------------------------------------------

INNERMOST = -1  # in place of a dim: the stride is 1, as that of the innermost dim of a tensor without gaps


def dims_inside(tensor: torch.Tensor) -> list[tuple[int, int | None]]:
    """For each dim, from the innermost outwards, the dim next to it inside: its stride is that one's stride times size, as in a
    tensor without gaps. INNERMOST if there is none; None if the stride is another. A dim of size 1 that lies by another stride
    says nothing of the others.

    >>> dims_inside(torch.ones(2, 3, 4)), dims_inside(torch.ones(2, 9)[:, :5])
    ([(2, -1), (1, 2), (0, 1)], [(1, -1), (0, None)])
    """
    found: list[tuple[int, int | None]] = []
    sizes, strides = tensor.shape, tensor.stride()
    expected = {1: INNERMOST}
    for dim in sorted(range(len(sizes)), key=lambda dim: (strides[dim], -dim)):
        step, size = strides[dim], sizes[dim]
        inside = expected.get(step)
        found.append((dim, inside))
        if step == 0 or (size == 1 and inside is None):
            continue
        if size == 1:  # in other calls it may be larger: the next stride grows with it
            expected[step] = dim
        expected.setdefault(step * size, dim)
    return found


def stride_terms(tensor: torch.Tensor) -> list[Any]:
    """What tells whether each stride varies: a number, or for the product of a dim inside, which dim that is."""
    terms: list[Any] = list(tensor.stride())
    for dim, inside in dims_inside(tensor):
        if inside is not None and inside != INNERMOST:
            terms[dim] = "after", inside
    return terms


# -- questions -----------------------------------------------------------------------------------------------------


def answer(adapter: TorchShapeEnv, question: str, sizes: Sequence[IntExpr], strides: Sequence[IntExpr]) -> BoolExpr:
    """The condition under which a tensor of these sizes and strides has the layout asked for."""
    key = (question, *sizes, *strides)
    found = adapter.layouts.get(key)
    if found is None:
        found = adapter.layouts[key] = _answer(adapter, question, sizes, strides)
    return found


def _answer(adapter: TorchShapeEnv, question: str, sizes: Sequence[IntExpr], strides: Sequence[IntExpr]) -> BoolExpr:
    algebra = adapter.algebra
    if question == "contiguous":
        return _empty(algebra, sizes) | dense_in_order(algebra, sizes, strides, contiguous_order(len(sizes)))
    if question == "non_overlapping_and_dense":
        return non_overlapping_and_dense(adapter, sizes, strides)
    kind, _, dims = question.rpartition("_")
    order = _CHANNELS_LAST[dims]
    if len(order) != len(sizes):
        return algebra.false
    if kind == "channels_last_contiguous":
        return dense_in_order(algebra, sizes, strides, order)
    return channels_last_strides(algebra, sizes, strides, order)


def dense_in_order(algebra: Algebra, sizes: Sequence[IntExpr], strides: Sequence[IntExpr], order: Sequence[int]) -> BoolExpr:
    """Every stride is the product of the sizes before it in `order`, or its size is 1."""
    conditions = []
    expected = algebra.one
    for dim in order:
        conditions.append(algebra.relation("eq", sizes[dim], algebra.one) | algebra.relation("eq", strides[dim], expected))
        expected = algebra.mul(expected, sizes[dim])
    return algebra.all_of(conditions)


def _empty(algebra: Algebra, sizes: Sequence[IntExpr]) -> BoolExpr:
    return algebra.any_of([algebra.relation("eq", size, algebra.zero) for size in sizes])


def channels_last_strides(
    algebra: Algebra, sizes: Sequence[IntExpr], strides: Sequence[IntExpr], order: Sequence[int]
) -> BoolExpr:
    """Strides grow along `order`, channels first, as PyTorch defines it for ambiguous cases too."""
    least = algebra.zero
    conditions = [algebra.relation("ne", strides[1], algebra.zero)]
    for dim in order:
        conditions.append(algebra.relation("ne", sizes[dim], algebra.zero))
        conditions.append(algebra.relation("ge", strides[dim], least))
        if dim == 0:
            conditions.append(algebra.relation("ne", least, strides[1]))
        least = algebra.mul(strides[dim], algebra.maximum(sizes[dim], algebra.one))
    return algebra.all_of(conditions)


def non_overlapping_and_dense(adapter: TorchShapeEnv, sizes: Sequence[IntExpr], strides: Sequence[IntExpr]) -> BoolExpr:
    """The condition that the tensor is dense in the order of its strides in this call. If it is not dense in this call, "not
    dense" has to be true whatever the order: either the extent of the storage shows it, or the order becomes a guard."""
    algebra, env = adapter.algebra, adapter.env
    if len(sizes) == 1:
        return algebra.relation("eq", strides[0], algebra.one) | algebra.relation("lt", sizes[0], algebra.integer(2))
    hints = [(env.hint_of(stride), env.hint_of(size)) for stride, size in zip(strides, sizes, strict=True)]
    empty = _empty(algebra, sizes)
    if any(None in pair for pair in hints):
        return empty | dense_in_order(algebra, sizes, strides, contiguous_order(len(sizes)))
    order = sorted(range(len(sizes)), key=lambda dim: (hints[dim], -dim))
    dense = empty | dense_in_order(algebra, sizes, strides, order)
    if dense.hint is not False or env.statically_known(dense) is not None:
        return dense
    fills = fills_its_extent(algebra, sizes, strides)
    if fills.hint is False:
        return fills
    for inner, outer in zip(order, order[1:], strict=False):
        adapter.decide(algebra.relation("le", strides[inner], strides[outer]))
    return dense


def fills_its_extent(algebra: Algebra, sizes: Sequence[IntExpr], strides: Sequence[IntExpr]) -> BoolExpr:
    """The condition that there are as many elements as places from the first element to the last, as in every dense tensor."""
    extent, count = algebra.one, algebra.one
    for size, stride in zip(sizes, strides, strict=True):
        extent = algebra.add(extent, algebra.mul(algebra.sub(size, algebra.one), stride))
        count = algebra.mul(count, size)
    return algebra.relation("eq", extent, count)
