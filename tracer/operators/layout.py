"""How tensors lie in memory: which numbers are the same, the strides of a tensor without gaps, and questions about the layout of
a tensor with symbolic sizes and strides, answered as boolean expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from shapes.polynomial import IntExpr
from shapes.relations import BoolExpr

if TYPE_CHECKING:
    from shapes.algebra import Algebra
    from tracer.graph.symbols.shape_env_adapter import TorchShapeEnv

_CHANNELS_LAST = {"2d": (1, 3, 2, 0), "3d": (1, 4, 3, 2, 0)}  # innermost dim first


# -- numbers of PyTorch ------------------------------------------------------------------------------------------


def same(a: Any, b: Any) -> bool:
    """Whether two numbers (int or SymInt) are known to be equal in every call. Nothing is asked."""
    if type(a) is int or type(b) is int:
        return type(a) is type(b) and a == b
    return a.node is b.node or expression(a) == expression(b)


def all_same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(one) == len(other) and all(map(same, one, other))


def expression(number: Any) -> Any:
    """What a SymInt stands for; the symbols that were found to be equal are one in it."""
    node = number.node
    return node.reduced() if hasattr(node, "reduced") else node.expr  # ours, or PyTorch's own


def hint(number: Any) -> Any:
    """The number in the traced call; None if it depends on data."""
    return number if isinstance(number, int) else number.node.hint


def hints(numbers: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([hint(number) for number in numbers])


def _is_zero(size: Any) -> bool:
    return type(size) is int and size == 0


def in_line(rank: int) -> range:
    """The order of the dims of a contiguous tensor, the innermost first."""
    return range(rank - 1, -1, -1)


def dense_strides(
    sizes: Sequence[Any], order: Sequence[int] | None = None, is_empty: Callable[[Any], bool] = _is_zero
) -> tuple[Any, ...]:
    """The strides of a tensor without gaps. `order`: of the dims, the innermost first; that of a contiguous tensor if None.
    `is_empty`: of a size, whether it counts as 1 because it is 0.

    >>> dense_strides((2, 3, 4)), dense_strides((2, 3, 4), (1, 2, 0)), dense_strides((2, 0, 4))
    ((12, 4, 1), (12, 1, 3), (4, 4, 1))
    """
    strides: list[Any] = [1] * len(sizes)
    step: Any = 1
    for dim in in_line(len(sizes)) if order is None else order:
        strides[dim] = step
        step = step * (1 if is_empty(sizes[dim]) else sizes[dim])
    return tuple(strides)


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
        return _empty(algebra, sizes) | dense_in_order(algebra, sizes, strides, in_line(len(sizes)))
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
    """Dense in the order of the traced strides. Where it is not, the answer no has to hold for all sizes that reuse the
    trace: by the extent of the storage, which no order changes, or else with the order guarded on."""
    algebra, env = adapter.algebra, adapter.env
    if len(sizes) == 1:
        return algebra.relation("eq", strides[0], algebra.one) | algebra.relation("lt", sizes[0], algebra.integer(2))
    hints = [(env.hint_of(stride), env.hint_of(size)) for stride, size in zip(strides, sizes, strict=True)]
    empty = _empty(algebra, sizes)
    if any(None in pair for pair in hints):
        return empty | dense_in_order(algebra, sizes, strides, in_line(len(sizes)))
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
    """As many elements as places from the first to the last: what every dense tensor has."""
    extent, count = algebra.one, algebra.one
    for size, stride in zip(sizes, strides, strict=True):
        extent = algebra.add(extent, algebra.mul(algebra.sub(size, algebra.one), stride))
        count = algebra.mul(count, size)
    return algebra.relation("eq", extent, count)
