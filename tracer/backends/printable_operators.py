"""Operators of ATen that FX cannot print: it writes `torch.ops.aten.random.from`, and `from` is a word of Python.

A graph of operators is made of others in their place, with the same kernels. Graphs as they are captured hold the functions of
torch, whose names are no trouble (`graph.keyword_calls` sees to their keywords).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_LIBRARY = torch.library.Library("shapetracer", "FRAGMENT")
_LIBRARY.define(
    "random_from(Tensor self, int low, int? high, *, Generator? generator=None) -> Tensor",
    tags=(torch.Tag.nondeterministic_seeded, torch.Tag.pt2_compliant_tag),
)
_FUNCTIONAL = getattr(torch.ops.aten.random, "from")
_IN_PLACE = getattr(torch.ops.aten.random_, "from")
_LIBRARY.impl("random_from", _FUNCTIONAL, "CompositeExplicitAutograd")


def _random_from(self: torch.Tensor, *bounds: int | None, generator: Any = None, **named: int | None) -> torch.Tensor:
    """The bounds `from` and `to`, wherever they stand."""
    low, high = (*bounds, *(named[name] for name in ("from", "to") if name in named))
    found: torch.Tensor = torch.ops.shapetracer.random_from(self, low, high, generator=generator)
    return found


def _random_from_in_place(self: torch.Tensor, *bounds: int | None, **named: Any) -> torch.Tensor:
    return self.copy_(_random_from(self, *bounds, **named))


#: Decompositions, as `make_fx` and AOTAutograd take them.
PRINTABLE: dict[Any, Callable[..., Any]] = {_FUNCTIONAL: _random_from, _IN_PLACE: _random_from_in_place}
