"""Bounds of the sizes that data decide: at most all elements are not zero, and of some elements at least one is unique.

PyTorch states them where the sizes of the input are numbers. Where these are symbols, they are stated here, as relations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from tracer.graph.fakes.fake_mode import FakeMode

aten = torch.ops.aten

_COUNTS_ELEMENTS = {aten.nonzero.default, aten.masked_select.default, aten._unique.default, aten._unique2.default}
_COUNTS_SLICES = {  # operator -> the position of its dim; without one, elements are counted
    aten.unique_dim.default: 1,
    aten.unique_dim_consecutive.default: 1,
    aten.unique_consecutive.default: 3,
}
_MAY_BE_NONE = {aten.nonzero.default, aten.masked_select.default}  # the others find one if there is one


def bound_sizes_of_data(mode: FakeMode, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
    """Tells the env between which sizes of the operands a size of the result lies, where data decide it."""
    if func not in _COUNTS_ELEMENTS and func not in _COUNTS_SLICES:
        return
    made, input = result[0] if isinstance(result, tuple) else result, args[0]
    dim = _argument(args, kwargs, _COUNTS_SLICES[func], "dim") if func in _COUNTS_SLICES else None
    if dim is not None:
        most = input.shape[dim]
    elif func is aten.masked_select.default:
        mask = _argument(args, kwargs, 1, "mask")
        most = torch.empty_like(input, dtype=torch.bool).logical_and(mask).numel()
    else:
        most = input.numel()
    size = made.shape[dim or 0]
    if isinstance(size, torch.SymInt) and not size.node.has_hint():
        _state(mode, size.node.value, most, func not in _MAY_BE_NONE)


def _state(mode: FakeMode, size: Any, most: Any, some: bool) -> None:
    env = mode.torch_env.env
    largest = most.node.value if isinstance(most, torch.SymInt) else env.algebra.integer(most)
    env.trust(env.algebra.relation("le", size, largest))
    if some:
        env.trust(env.algebra.relation("ge", size, env.algebra.minimum(largest, env.algebra.one)))


def _argument(args: Sequence[Any], kwargs: Mapping[str, Any], position: int, name: str) -> Any:
    return args[position] if len(args) > position else kwargs.get(name)
