"""Operators that Inductor is not given, because it computes something else for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

_ADD = torch.ops.aten.add.Tensor
_RANDPERM = torch.ops.aten.randperm.default
_LIBRARY = torch.library.Library("shapetracer", "FRAGMENT")
_LIBRARY.define(
    "randperm(SymInt n, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None) -> Tensor",
    tags=(torch.Tag.nondeterministic_seeded, torch.Tag.pt2_compliant_tag),
)
_LIBRARY.impl("randperm", _RANDPERM, "CompositeExplicitAutograd")


def without_what_inductor_gets_wrong(table: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """A table of decompositions, with those that keep the operators away from Inductor.

    `x.add(a @ b, alpha=0.1)`: the pass of torch 2.13 that makes one `addmm` of the two does not look at `alpha`.
    `x[torch.randperm(n)]`: a pass looks for a part of the permutation, and fails where that is all of it.
    """
    given = table.get(_ADD)

    def add(x: Any, y: Any, *, alpha: Any = 1) -> Any:
        is_plain = isinstance(y, torch.Tensor) and not (y.is_complex() or isinstance(x, torch.Tensor) and x.is_complex())
        if is_plain and not (type(alpha) in (int, float) and alpha == 1):
            return _ADD(x, torch.mul(y.to(torch.result_type(x, y)), alpha))
        return NotImplemented if given is None else given(x, y, alpha=alpha)

    return {**table, _ADD: add, _RANDPERM: torch.ops.shapetracer.randperm}
