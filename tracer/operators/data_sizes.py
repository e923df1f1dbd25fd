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

# operator -> whether the size is at least one where there is an element
_COUNTS_ELEMENTS = {
    aten.nonzero.default: False,
    aten.masked_select.default: False,
    aten._unique.default: True,
    aten._unique2.default: True,
    aten.unique_consecutive.default: True,
}
_COUNTS_SLICES = {aten.unique_dim.default, aten.unique_dim_consecutive.default}


def bound_sizes_of_data(mode: FakeMode, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
    """Tells the env between which sizes of the operands a size of the result lies, where data decide it."""
    if func not in _COUNTS_ELEMENTS and func not in _COUNTS_SLICES:
        return
    made, input = result[0] if isinstance(result, tuple) else result, args[0]
    dim = 0
    if func in _COUNTS_SLICES:
        dim = args[1] if len(args) > 1 else kwargs["dim"]
        most = input.shape[dim]
    elif func is aten.masked_select.default:
        mask = args[1] if len(args) > 1 else kwargs["mask"]
        most = torch.empty_like(input, dtype=torch.bool).logical_and(mask).numel()
    else:
        most = input.numel()
    size = made.shape[dim]
    if isinstance(size, torch.SymInt) and not size.node.has_hint():
        _state(mode, size.node.value, most, func in _COUNTS_SLICES or _COUNTS_ELEMENTS[func])


def _state(mode: FakeMode, size: Any, most: Any, some: bool) -> None:
    env = mode.torch_env.env
    largest = most.node.value if isinstance(most, torch.SymInt) else env.algebra.integer(most)
    env.trust(env.algebra.relation("le", size, largest))
    if some:
        env.trust(env.algebra.relation("ge", size, env.algebra.minimum(largest, env.algebra.one)))
