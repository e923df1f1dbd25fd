"""The strides of results, where PyTorch's rules for fake tensors give other ones than C.

In C, an elementwise operator "flattens" operands of one shape that have equal strides and no gaps: it goes through them in the
order of memory, and the result has the same strides. In all other cases, also if one operand is a number, it "sorts" the dims by
the strides of the operands. PyTorch's rules differ from this for dims of size 0 or 1, and for some operators in other cases.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from tracer.operators import layout, table
from tracer.operators.facts import OperatorFacts, facts_of
from tracer.operators.free_strides import OF_NO_LAYOUT, is_laid_out_like_its_argument, subtracts_the_first
from tracer.operators.layout import all_same, contiguous_order, dense_strides, same, sorted_dims
from tracer.operators.probed_strides import LayoutInTrace, with_probed_strides
from tracer.operators.probes import FLATTENS, way_of_elements
from tracer.operators.results import laid_out

if TYPE_CHECKING:
    from shapes.relations import BoolExpr
    from tracer.graph.fakes.fake_mode import FakeMode

_aten = torch.ops.aten
_OF_CHANNELS = {4: ("channels_last_strides_2d", (1, 3, 2, 0)), 5: ("channels_last_strides_3d", (1, 4, 3, 2, 0))}
_COPY_IF_NEEDED = ("contiguous", "flatten", "ravel", "reshape", "reshape_as")
_BY_CHANNELS = (table.CHANNELS, table.BATCH, table.IN_LINE)


class _Unknown(Exception):
    """No rule gives the strides: the operator has to be run."""


class _Undecided(Exception):
    """The strides depend on a comparison of sizes that is not decided, and no guard may decide it."""


def with_real_strides(mode: FakeMode, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
    """`result`, with the strides that C gives it."""
    facts = facts_of(func)
    try:
        if not facts.asks_layout:
            return _by_rule(mode, func, facts, args, kwargs, result)
        if any(not all(type(size) is int for size in fake.shape) for fake in _tensors_in(result)):
            ruled = _by_rule(mode, func, facts, args, kwargs, result)
            if ruled is not result:
                return ruled
    except _Unknown:
        pass
    return with_probed_strides(LayoutInTrace(mode), func, args, kwargs, result)


def assume_copied(mode: FakeMode, function: str, args: Sequence[Any], result: Any) -> None:
    """For graphs that do not run as they are written: where data decide whether a function copies its argument or gives it,
    PyTorch's rule takes it for a copy, and so do its compilers. That becomes an assumption, checked when the graph runs."""
    argument = args[0] if args and function in _COPY_IF_NEEDED else None
    if not isinstance(argument, FakeTensor) or not isinstance(result, FakeTensor) or None not in layout.hints(argument.shape):
        return
    if argument.untyped_storage()._cdata != result.untyped_storage()._cdata:
        sizes, strides = [[_expr(mode, number) for number in numbers] for numbers in (argument.shape, argument.stride())]
        mode.torch_env.env.assume(~layout.answer(mode.torch_env, "contiguous", sizes, strides), f"{function} copies")


def _tensors_in(result: Any) -> list[torch.Tensor]:
    return [item for item in (result if isinstance(result, (tuple, list)) else (result,)) if isinstance(item, torch.Tensor)]


def _by_rule(mode: FakeMode, func: Any, facts: OperatorFacts, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
    if func is _aten.expand.default:
        return _expanded(args[0], result)
    if facts.row.lies in _BY_CHANNELS:
        return _with_channels(mode, facts.row.lies, args, result)
    like_one = is_laid_out_like_its_argument(facts, kwargs)
    if not like_one and (not facts.elementwise or facts.is_view or not kwargs.keys() <= OF_NO_LAYOUT):
        return result
    if type(result) is tuple and not facts.writes:
        raise _Unknown
    if type(result) is not FakeTensor or not result.dim():
        return result
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    if any(arg is result or arg.layout is not torch.strided or arg.device.type != "cpu" for arg in tensors):
        return result
    if result.dim() == 1 and not like_one:
        if any(arg.dim() and not same(arg.stride(0), 1) for arg in tensors) and way_of_elements(func, args, kwargs) is None:
            raise _Unknown
        return result
    if subtracts_the_first(func):
        tensors.reverse()
    try:
        if like_one:
            strides = tuple(args[0].stride()) if _is_dense(mode, args[0]) else None
        else:
            strides = _strides(mode, func, args, kwargs, tensors, tuple(result.shape))
        if strides is None or _same(mode, strides, result.stride()):
            return result
    except _Undecided:
        mode.note_layout_guessed()
        return result
    return laid_out(mode, args, result, strides)


def _expanded(tensor: torch.Tensor, result: Any) -> Any:
    """The result of `expand`: in C, a new dim of size 1 has the extent of the dim inside of it for a stride."""
    strides, new = list(result.stride()), result.dim() - tensor.dim()
    if not tensor.dim():
        strides = [0] * new
    for dim in range(new - 1, -1, -1):
        if tensor.dim() and type(result.shape[dim]) is int and result.shape[dim] == 1:
            strides[dim] = result.shape[dim + 1] * strides[dim + 1]
    if all_same(strides, result.stride()):
        return result
    return _aten.as_strided.default(tensor, result.shape, strides, result.storage_offset())


def _with_channels(mode: FakeMode, lies: str, args: Sequence[Any], result: Any) -> Any:
    results = result if isinstance(result, tuple) else (result,)
    concerned = len(results) if lies == table.IN_LINE else 1
    if results[0].device.type != "cpu" or any(type(size) is int and size == 0 for size in results[0].shape):
        return result
    try:
        contiguous = lies == table.IN_LINE or lies == table.BATCH and _lies(mode, args[0], "contiguous")
        order = None if contiguous else _channels_last(mode, args[0])
        laid = [_in_order(mode, args, each, order) for each in results[:concerned]]
    except _Undecided:
        mode.note_layout_guessed()
        return result
    if all(map(operator.is_, laid, results)):
        return result
    return (*laid, *results[concerned:]) if isinstance(result, tuple) else laid[0]


def _in_order(mode: FakeMode, args: Sequence[Any], tensor: FakeTensor, order: Sequence[int] | None) -> FakeTensor:
    """The tensor with dense strides in this order of the dims, the innermost first; None: contiguous."""
    strides = _filled(mode, tensor.shape, order or contiguous_order(tensor.dim()))
    return tensor if _same(mode, strides, tensor.stride()) else laid_out(mode, args, tensor, strides)


def _channels_last(mode: FakeMode, tensor: torch.Tensor) -> Sequence[int] | None:
    """The order of dims, the innermost first, of a tensor whose channels come last; None for others."""
    if tensor.dim() not in _OF_CHANNELS:
        return None
    question, order = _OF_CHANNELS[tensor.dim()]
    return order if _lies(mode, tensor, question) else None


def _lies(mode: FakeMode, tensor: torch.Tensor, question: str) -> bool:
    """The answer to a question about the layout of a tensor."""
    sizes, strides = [[_expr(mode, number) for number in numbers] for numbers in (tensor.shape, tensor.stride())]
    return _known_to_hold(mode, layout.answer(mode.torch_env, question, sizes, strides))


def _strides(
    mode: FakeMode,
    func: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    tensors: Sequence[torch.Tensor],
    sizes: tuple[Any, ...],
) -> tuple[Any, ...] | None:
    """The strides that C gives to the result of an elementwise operator. Raises _Unknown if it neither sorts nor flattens."""
    shaped = [tensor for tensor in tensors if tensor.dim()]
    plain = _filled(mode, sizes, contiguous_order(len(sizes)))
    of_one_shape = all(_same(mode, tensor.shape, sizes) for tensor in shaped)
    contiguous = of_one_shape and all(_same(mode, tensor.stride(), plain) for tensor in shaped)
    if contiguous and not any(_is(mode, "eq", size, 0) for size in sizes):
        return plain
    how = way_of_elements(func, args, kwargs)
    if how is None:
        raise _Unknown
    kept = _flattened(mode, shaped, plain) if of_one_shape and how is FLATTENS else None
    return kept or _filled(mode, sizes, _sorted_dims(mode, sizes, [_broadcast(mode, tensor, sizes) for tensor in shaped]))


def _flattened(mode: FakeMode, operands: Sequence[torch.Tensor], plain: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The strides of the result for operands that C flattens (see above); None if it sorts their dims."""
    if all(_lies(mode, tensor, "contiguous") for tensor in operands):
        return plain
    first = operands[0]
    if first.dim() == 4 and all(_lies(mode, tensor, "channels_last_contiguous_2d") for tensor in operands):
        return _filled(mode, first.shape, _OF_CHANNELS[4][1])
    strides = tuple(first.stride())
    if all(_same(mode, tensor.stride(), strides) and _is_dense(mode, tensor) for tensor in operands):
        return strides
    return None


def _broadcast(mode: FakeMode, tensor: torch.Tensor, sizes: Sequence[Any]) -> list[Any]:
    """The strides of an operand over the dims of the result; 0 where it is repeated."""
    missing = len(sizes) - tensor.dim()
    repeated = [_is(mode, "eq", size, 1) and not _is(mode, "eq", whole, 1) for size, whole in zip(tensor.shape, sizes[missing:])]
    return [0] * missing + [0 if again else stride for again, stride in zip(repeated, tensor.stride())]


def _is_dense(mode: FakeMode, tensor: torch.Tensor) -> bool:
    """Without gaps or overlaps, in some order of the dims."""
    if not all(type(number) is int for number in (*tensor.shape, *tensor.stride())):
        if mode.asks_layout:
            return _lies(mode, tensor, "non_overlapping_and_dense")
        raise _Undecided
    return bool(_aten.is_non_overlapping_and_dense(tensor))


def _sorted_dims(mode: FakeMode, sizes: Sequence[Any], operands: Sequence[Sequence[Any]]) -> list[int]:
    return sorted_dims(len(sizes), lambda inner, outer, last: _swaps(mode, inner, outer, sizes, operands))


def _filled(mode: FakeMode, sizes: Sequence[Any], order: Sequence[int]) -> tuple[Any, ...]:
    """The strides of a tensor without gaps; `order` has the dims, the innermost first. C counts a size of 0 as 1 only in the
    order of a contiguous tensor."""
    plain = list(order) == list(contiguous_order(len(sizes)))
    return dense_strides(sizes, order, lambda size: plain and _is(mode, "eq", size, 0))


def _swaps(mode: FakeMode, inner: int, outer: int, sizes: Sequence[Any], operands: Sequence[Sequence[Any]]) -> bool | None:
    """Whether two dims are in the wrong order; None if no operand's strides decide it."""
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
    """Whether a relation ("eq" or "lt") holds. Without a guard if that is possible; else by a guard in a trace that
    `asks_layout`. Raises _Undecided in other traces."""
    if type(a) is type(b) is int:
        return a == b if relation == "eq" else a < b
    if layout.same(a, b):
        return relation == "eq"
    return _known_to_hold(mode, mode.torch_env.algebra.relation(relation, _expr(mode, a), _expr(mode, b)))


def _known_to_hold(mode: FakeMode, condition: BoolExpr) -> bool:
    known = mode.torch_env.env.statically_known(condition)
    if known is not None:
        return known
    if not mode.asks_layout or mode.torch_env.env.suppressed:
        raise _Undecided
    try:
        return mode.torch_env.decide(condition)
    except GuardOnDataDependentSymNode:
        raise _Undecided from None


def _expr(mode: FakeMode, number: Any) -> Any:
    return mode.torch_env.algebra.integer(number) if type(number) is int else layout.expression(number)
