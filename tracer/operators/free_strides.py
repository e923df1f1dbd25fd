"""Elementwise operators on tensors whose strides may be any: what is asked is in which order the strides are, never how large.

PyTorch's rules ask whether operands are contiguous, which divides calls that differ in nothing but the gaps between rows. Here
they are asked of contiguous operands of the same sizes, and the result is then laid out in the order of the real ones. Where
a dim of size 0 or 1 may come elsewhere in that order, its stride is a guess, unless layouts are to be asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from shapes.symbols import Kind
from tracer.operators import table
from tracer.operators.facts import OperatorFacts, facts_of
from tracer.operators.layout import all_same, dense_strides, expression, sorted_dims
from tracer.operators.probes import way_of_elements
from tracer.operators.results import laid_out

if TYPE_CHECKING:
    from shapes.polynomial import IntExpr
    from shapes.relations import BoolExpr
    from tracer.graph.fakes.fake_mode import FakeMode

_aten = torch.ops.aten
OF_NO_LAYOUT = frozenset(("alpha", "value", "rounding_mode", "approximate"))  # arguments by keyword
_COPIES = (_aten.clone.default, _aten._to_copy.default)  # as their argument lies if that has no gaps, else by order, too
_OF_COPIES: dict[str, tuple[Any, ...]] = {
    "memory_format": (None, torch.preserve_format),
    "device": (None, torch.device("cpu")),
    "layout": (None, torch.strided),
    "pin_memory": (None, False),
}


def lies_freely(mode: FakeMode, tensor: torch.Tensor) -> bool:
    """Whether a stride is a symbol of its own, and not computed of sizes."""
    env = mode.torch_env
    if not env.env.has_free_strides or tensor.layout is not torch.strided:
        return False
    strides = [stride.node.value for stride in tensor.stride() if type(stride) is torch.SymInt]
    return any(symbol.kind is Kind.STRIDE for stride in strides for symbol in env.symbols_of(stride))


def with_contiguous_operands(mode: FakeMode, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
    """The arguments for which PyTorch's rule is asked: contiguous tensors in place of those that lie freely, if
    `laid_out_by_order` is to lay the result out. Else the arguments themselves."""
    if mode.asks_layout or not mode.torch_env.env.has_free_strides:
        return args
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    free = [tensor for tensor in tensors if lies_freely(mode, tensor)]
    if not free or any(type(tensor) is not FakeTensor or tensor.device.type != "cpu" for tensor in tensors):
        return args
    if not _is_laid_out_by_order(func, args, kwargs):
        return args
    return [_contiguous(mode, arg) if any(arg is each for each in free) else arg for arg in args]


def _is_laid_out_by_order(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether the order of the strides of its operands tells how the one new tensor lies that an operator gives."""
    facts = facts_of(func)
    if not facts.gives_one_new_tensor or facts.is_view or facts.asks_layout:
        return False
    if is_laid_out_like_its_argument(facts, kwargs):
        return True
    if func in _COPIES:
        return all(kwargs.get(name) in allowed for name, allowed in _OF_COPIES.items())
    return facts.elementwise and kwargs.keys() <= OF_NO_LAYOUT and way_of_elements(func, args, kwargs) is not None


def is_laid_out_like_its_argument(facts: OperatorFacts, kwargs: Mapping[str, Any]) -> bool:
    return facts.row.lies == table.AS_ITS_ARGUMENT and kwargs.get("memory_format") in (None, torch.preserve_format)


def subtracts_the_first(func: Any) -> bool:
    """Whether an operator goes through its second operand first."""
    return func is _aten.rsub.Tensor


def _contiguous(mode: FakeMode, tensor: FakeTensor) -> FakeTensor:
    return laid_out(mode, (), tensor, dense_strides(tensor.shape))


def laid_out_by_order(mode: FakeMode, func: Any, args: Sequence[Any], result: Any) -> Any:
    """What PyTorch's rule gave for contiguous operands, laid out as for the real ones: without gaps, its dims in the order of
    their strides."""
    if type(result) is not FakeTensor or not result.dim():
        return result
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.dim()]
    if subtracts_the_first(func):
        tensors.reverse()
    sorting = _Sorting(mode, result.shape, tensors)
    if any(sorting.lowest(size) < 2 for size in sorting.sizes):
        mode.note_layout_guessed()
    strides = dense_strides(result.shape, sorted_dims(result.dim(), sorting.swaps))
    return result if all_same(strides, result.stride()) else laid_out(mode, args, result, strides)


class _Sorting:
    """The questions that sort the dims of a result, as conditions that become guards."""

    def __init__(self, mode: FakeMode, sizes: Sequence[Any], tensors: Sequence[torch.Tensor]) -> None:
        self.adapter = mode.torch_env
        self.algebra, self.env = self.adapter.algebra, self.adapter.env
        self.sizes = self._expressions(sizes)
        self.operands = [self._broadcast(tensor) for tensor in tensors]

    def swaps(self, inner: int, outer: int, last: bool) -> bool | None:
        """Whether two dims are in the wrong order; None where no operand tells."""
        algebra, zero = self.algebra, self.algebra.zero
        for strides in self.operands:
            a, b = strides[inner], strides[outer]
            less = algebra.relation("lt", a, b)
            if self.lowest(a) >= 1 and less.hint is True and self._holds(less):
                return False
            longer = algebra.relation("eq", a, b) & algebra.relation("lt", self.sizes[outer], self.sizes[inner])
            tells = algebra.relation("ne", a, zero) & algebra.relation("ne", b, zero)
            if self._holds(tells & (algebra.relation("lt", b, a) | longer)):
                return True
            if last and strides is self.operands[-1]:
                return False
            if self._holds(algebra.relation("ne", a, zero) & less):
                return False
        return None

    def lowest(self, number: IntExpr) -> Any:
        """The least value that a number may have."""
        return self.env.bounds(number)[0]

    def _broadcast(self, tensor: torch.Tensor) -> list[IntExpr]:
        """The strides of an operand over the dims of the result; 0 where it is repeated."""
        missing = len(self.sizes) - tensor.dim()
        one = self.algebra.one
        strides = [self.algebra.zero] * missing
        sizes = self._expressions(tensor.shape)
        for size, whole, stride in zip(sizes, self.sizes[missing:], self._expressions(tensor.stride())):
            repeated = size is not whole and self.env.statically_known(self.algebra.relation("eq", size, one))
            strides.append(self.algebra.zero if repeated else stride)
        return strides

    def _expressions(self, numbers: Sequence[Any]) -> list[IntExpr]:
        integer = self.algebra.integer
        return [integer(number) if type(number) is int else expression(number) for number in numbers]

    def _holds(self, condition: BoolExpr) -> bool:
        try:
            return self.adapter.decide(condition)
        except GuardOnDataDependentSymNode:
            return False
