"""Which dims and ints become symbols: static or dynamic, duck shaping, 0/1 specialisation, what varied before."""

from __future__ import annotations

import dataclasses
import enum
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shapes.symbols import Symbol

Past = Sequence[int | None]  # a size in each earlier call; None where it is not known
_CALLS = 16  # how many calls are remembered


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


class Twins:
    """The symbols of duck-shaped sizes: those of one value share one, unless an earlier call told them apart."""

    def __init__(self) -> None:
        self._by_value: dict[int, list[tuple[Symbol, list[int | None]]]] = {}

    def find(self, value: int, past: Past) -> Symbol | None:
        """The symbol that a further size of this value shares; its past is known to be that size's from now on."""
        for symbol, known in self._by_value.get(value, ()):
            if all(a is None or b is None or a == b for a, b in zip(known, past)):
                known[:] = [b if a is None else a for a, b in zip(known, past)]
                return symbol
        return None

    def add(self, symbol: Symbol, value: int, past: Past) -> None:
        self._by_value.setdefault(value, []).append((symbol, list(past)))


@dataclasses.dataclass
class SizeHistory:
    """What was seen at each place in earlier calls; a value that changed is dynamic from then on."""

    seen: dict[str, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
    varying: dict[str, set[int]] = dataclasses.field(default_factory=dict)
    calls: deque[dict[str, tuple[Any, ...]]] = dataclasses.field(default_factory=lambda: deque(maxlen=_CALLS))

    def begin(self) -> None:
        """What is observed from now on is of one more call."""
        self.calls.append({})

    def past(self, place: str, position: int) -> Past:
        """The size at a place in each call that is remembered, this one included."""
        seen = [call.get(place, ()) for call in self.calls]
        return [values[position] if position < len(values) else None for values in seen]

    def observe(self, place: str, values: Sequence[Any]) -> frozenset[int]:
        """Takes note of the sizes (or the one int) at a place; returns the positions that have varied so far."""
        now = tuple(values)
        if self.calls:
            self.calls[-1][place] = now
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
