"""Which dims and ints become symbols: static or dynamic, duck shaping, 0/1 specialisation, what varied before."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any


class DimPolicy(enum.Enum):
    """How one size enters the trace."""

    STATIC = "static"  # its value is a constant of the trace
    DYNAMIC = "dynamic"  # a symbol of its own
    DUCK = "duck"  # a symbol, shared with the other duck-shaped sizes of the same value
    UNBACKED = "unbacked"  # a symbol whose value the trace may not look at


@dataclasses.dataclass(frozen=True)
class ShapePolicy:
    """The settings of an env."""

    duck_shape: bool = True
    specialize_zero_one: bool = True

    def is_constant(self, value: int, policy: DimPolicy, specialize_zero_one: bool | None = None) -> bool:
        """Whether a size of this value is a constant of the trace."""
        if policy is DimPolicy.STATIC:
            return True
        if policy is DimPolicy.UNBACKED:
            return False
        wanted = self.specialize_zero_one if specialize_zero_one is None else specialize_zero_one
        return wanted and value in (0, 1)

    def least_size(self, specialize_zero_one: bool | None = None) -> int:
        """The smallest value of a size that is a symbol."""
        wanted = self.specialize_zero_one if specialize_zero_one is None else specialize_zero_one
        return 2 if wanted else 0


@dataclasses.dataclass
class SizeHistory:
    """What was seen at each place in earlier calls; a value that changed is dynamic from then on."""

    seen: dict[str, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
    varying: dict[str, set[int]] = dataclasses.field(default_factory=dict)

    def observe(self, place: str, values: Sequence[Any]) -> frozenset[int]:
        """Takes note of the sizes (or the one int) at a place; returns the positions that have varied so far."""
        now = tuple(values)
        before = self.seen.get(place)
        varying = self.varying.setdefault(place, set())
        if before is not None:
            if len(before) != len(now):
                varying.clear()  # another rank: nothing carries over
            else:
                varying.update(i for i, (a, b) in enumerate(zip(before, now, strict=True)) if a != b)
        self.seen[place] = now
        return frozenset(varying)

    def policies(self, place: str, values: Sequence[Any], default: DimPolicy = DimPolicy.STATIC) -> list[DimPolicy]:
        """The policy of each position after this call: duck-shaped where it has varied."""
        varying = self.observe(place, values)
        return [DimPolicy.DUCK if i in varying else default for i in range(len(values))]
