"""The rule of `view`. PyTorch's rule for fakes builds the new dims from left to right, and asks on its way whether sizes are 1,
of dims, too, that the view leaves alone. Here, as in C, dims are taken from the innermost outwards, in runs without gaps: a dim
belongs to the run inside of it if it lies so, or if its size is 1, whatever its stride then is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from shapes.relations import BoolExpr
from tracer.operators.free_strides import lies_freely
from tracer.operators.layout import dense_strides, expression, hint
from tracer.operators.meta import meta

if TYPE_CHECKING:
    from shapes.polynomial import IntExpr
    from tracer.graph.symbols.shape_env_adapter import TorchShapeEnv

aten = torch.ops.aten


@meta(aten.view.default, aten._unsafe_view.default)
def _viewed(func: Any, tensor: torch.Tensor, shape: Sequence[Any]) -> Any:
    """The view, where expressions show how it lies for all sizes but 0 and 1, for which its strides are a guess. Where strides
    may be any, what C asks of them is asked."""
    if type(tensor) is not FakeTensor or tensor.layout is not torch.strided or not tensor.dim():
        return NotImplemented
    mode, numbers = tensor.fake_mode, (*tensor.shape, *tensor.stride(), *shape)
    if all(type(each) is int for each in numbers) or any(hint(each) is None for each in numbers):
        return NotImplemented
    adapter, free = mode.torch_env, lies_freely(mode, tensor)
    if mode.asks_layout and not free:
        return NotImplemented
    old, strides, new = ([_expr(adapter, each) for each in group] for group in (tensor.shape, tensor.stride(), shape))
    runs = _Runs(adapter, adapter.decide if free else _is_known, mode.asks_layout)
    sizes = runs.sizes(old, new)
    found = None if sizes is None else runs.strides(old, strides, sizes)
    if sizes is None or found is None:
        return NotImplemented
    if not mode.asks_layout and any(size.const is None and adapter.env.bounds(size)[0] < 2 for size in (*old, *sizes)):
        mode.note_layout_guessed()
    wrapped = [[adapter.wrap(number) for number in group] for group in (sizes, found)]
    return aten.as_strided.default(tensor, *wrapped, tensor.storage_offset())


def _is_known(condition: BoolExpr) -> bool:
    return condition.const is True


def _expr(adapter: TorchShapeEnv, number: Any) -> IntExpr:
    return adapter.algebra.integer(number) if type(number) is int else expression(number)


class _Runs:
    """The sizes and strides of a view. `holds` says whether a condition holds, by a guard or only where it is known; `exactly`:
    dims of size 1, and tensors without elements, lie as in C, too."""

    def __init__(self, adapter: TorchShapeEnv, holds: Callable[[BoolExpr], bool], exactly: bool) -> None:
        self.adapter, self.algebra, self.holds, self.exactly = adapter, adapter.algebra, holds, exactly

    def sizes(self, old: Sequence[IntExpr], new: Sequence[IntExpr]) -> list[IntExpr] | None:
        """The sizes of the view, that of a -1 worked out; None where they are not known to fit."""
        algebra, count, product = self.algebra, self.algebra.one, self.algebra.one
        for size in old:
            count = algebra.mul(count, size)
        left_out = [dim for dim, size in enumerate(new) if size.const == -1]
        for size in new:
            if size.const != -1:
                if self.adapter.env.bounds(size)[0] < (1 if left_out else 0):
                    return None
                product = algebra.mul(product, size)
        if not left_out:
            return list(new) if self._holds_here(self._equal(product, count)) else None
        if len(left_out) > 1 or count.const == 0:
            return None
        rest = algebra.divide_exactly(count, product)
        if rest is None:
            rest = algebra.floordiv(count, product)
            if not self._holds_here(self._equal(algebra.mul(product, rest), count)):
                return None
        return [rest if dim in left_out else size for dim, size in enumerate(new)]

    def strides(self, old: Sequence[IntExpr], strides: Sequence[IntExpr], new: Sequence[IntExpr]) -> list[IntExpr] | None:
        """None where it is not known whether there is a view of the sizes `new`."""
        if self.exactly and self._has_no_elements(old):
            return self._of_nothing(old, strides, new)
        found = self._of_elements(old, strides, new)
        return self._of_nothing(old, strides, new) if found is None and self._has_no_elements(old) else found

    def _has_no_elements(self, old: Sequence[IntExpr]) -> bool:
        return self.holds(self.algebra.any_of([self._equal(size, self.algebra.zero) for size in old]))

    def _of_nothing(self, old: Sequence[IntExpr], strides: Sequence[IntExpr], new: Sequence[IntExpr]) -> list[IntExpr]:
        if len(old) == len(new) and all(self.holds(self._equal(a, b)) for a, b in zip(old, new)):
            return list(strides)
        return list(dense_strides([self.algebra.maximum(size, self.algebra.one) for size in new]))

    def _of_elements(self, old: Sequence[IntExpr], strides: Sequence[IntExpr], new: Sequence[IntExpr]) -> list[IntExpr] | None:
        left, found, dim = list(new), list[Any](), len(old)
        while dim:
            dim -= 1
            inner, count = strides[dim], old[dim]
            while dim and self._goes_on(old[dim - 1], strides[dim - 1], count, inner, left):
                dim -= 1
                count = self.algebra.mul(count, old[dim])
            dims = self._filling(count, left)
            if dims is None:
                return None
            step = inner
            for size in dims:
                found.append(step)
                step = self.algebra.mul(step, size)
        return None if left else found[::-1]

    def _goes_on(self, size: IntExpr, stride: IntExpr, count: IntExpr, inner: IntExpr, left: Sequence[IntExpr]) -> bool:
        """Whether a dim belongs to the run inside of it, of `count` elements at the stride `inner`. Where dims of the view fill
        that run, they lie alike either way, up to dims of size 1."""
        if size.const == 1:
            return True
        if not self.exactly and any(product is count for product in self._products(left)):
            return False
        return self.holds(self._equal(size, self.algebra.one) | self._equal(stride, self.algebra.mul(count, inner)))

    def _filling(self, count: IntExpr, left: list[IntExpr]) -> list[IntExpr] | None:
        """Takes the dims of the view that have `count` elements together from the end of those that are left."""
        products = self._products(left)
        known = [taken for taken, product in enumerate(products) if product is count]
        equal = known or [taken for taken, product in enumerate(products) if self._holds_here(self._equal(product, count))]
        if not equal:
            return None
        dims = [left.pop() for _ in range(equal[0])]
        while left and (left[-1].const == 1 or (self.exactly and self.holds(self._equal(left[-1], self.algebra.one)))):
            dims.append(left.pop())
        return dims

    def _products(self, left: Sequence[IntExpr]) -> list[IntExpr]:
        """Of the last dims: of none, one, two, ..."""
        products = [self.algebra.one]
        for size in reversed(left):
            products.append(self.algebra.mul(products[-1], size))
        return products

    def _holds_here(self, condition: BoolExpr) -> bool:
        """Whether a condition holds in this call, which is asked only if so."""
        return condition.hint is True and self.holds(condition)

    def _equal(self, a: IntExpr, b: IntExpr) -> BoolExpr:
        return self.algebra.relation("eq", a, b)
