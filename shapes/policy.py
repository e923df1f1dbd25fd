"""Which dims and ints become symbols: static or dynamic, duck shaping, 0/1 specialisation, history of earlier calls."""

from __future__ import annotations

import dataclasses
import enum
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

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


class DuckSymbols:
    """The symbols of duck-shaped sizes. Sizes with the same value share a symbol, unless they differed in an earlier call."""

    def __init__(self) -> None:
        self._by_value: dict[int, list[tuple[Symbol, list[int | None]]]] = {}

    def find(self, value: int, past: Past) -> Symbol | None:
        """The symbol that another size of this value can share, if there is one. The past of that size becomes a part of the
        symbol's past."""
        for symbol, known in self._by_value.get(value, ()):
            if all(a is None or b is None or a == b for a, b in zip(known, past)):
                known[:] = [b if a is None else a for a, b in zip(known, past)]
                return symbol
        return None

    def add(self, symbol: Symbol, value: int, past: Past) -> None:
        self._by_value.setdefault(value, []).append((symbol, list(past)))


class _Change(NamedTuple):
    call: int
    before: tuple[Any, ...]  # what was seen in the calls before it


class Told(NamedTuple):
    """What the calls of one process have shown: the values last seen at each place, and the positions that have varied."""

    seen: Mapping[str, tuple[Any, ...]]
    varying: Mapping[str, Sequence[int]]

    def takes_for_one(self, other: Told) -> bool:
        """Whether there are two varying values that are equal here, so that they may share a symbol, and differ there."""
        elsewhere: dict[Any, Any] = {}  # value here -> value there
        for place, positions in self.varying.items():
            here, there = self.seen[place], other.seen.get(place, ())
            for at in positions if len(here) == len(there) else ():
                if there[at] is not None and elsewhere.setdefault(here[at], there[at]) != there[at]:
                    return True
        return False


@dataclasses.dataclass
class SizeHistory:
    """The values at each place in earlier calls. A value that has changed is dynamic from then on."""

    seen: dict[str, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
    varying: dict[str, set[int]] = dataclasses.field(default_factory=dict)
    call: int = 0
    changes: dict[str, deque[_Change]] = dataclasses.field(default_factory=dict)

    def begin(self) -> None:
        """Begins a new call: values observed from now on belong to it."""
        self.call += 1

    def past(self, place: str, position: int) -> Past:
        """The size at a place in each remembered call, this one included. If a call did not observe the place, its value is taken
        to be that of the call before."""
        changes, now = self.changes.get(place, ()), self.seen.get(place, ())
        calls = range(max(self.call - _CALLS, 0) + 1, self.call + 1)
        values = [next((before for call, before in changes if at < call), now) for at in calls]
        return [sizes[position] if position < len(sizes) else None for sizes in values]

    def observe(self, place: str, values: Sequence[Any]) -> frozenset[int]:
        """Notes the sizes (or the one int) at a place; returns the positions that have varied so far. None stands for what was
        not seen this time."""
        now, before = tuple(values), self.seen.get(place)
        if before is not None and len(before) == len(now):
            now = tuple([a if b is None else b for a, b in zip(before, now)])
        if before is not None and before != now:
            self.changes.setdefault(place, deque(maxlen=_CALLS)).append(_Change(self.call, before))
            if len(before) != len(now):
                self.varying.pop(place, None)  # another rank: nothing carries over
            else:
                changed = (i for i, (a, b) in enumerate(zip(before, now, strict=True)) if a is not None and a != b)
                self.varying.setdefault(place, set()).update(changed)
        self.seen[place] = now
        return frozenset(self.varying.get(place, ()))

    def learn(self, other: SizeHistory) -> None:
        """Takes over what has varied in the calls of another object: the values at these positions, and nothing of the others."""
        if not self.seen:
            self.call = max(self.call, other.call)
        for place, positions in other.varying.items():
            values, known = other.seen[place], self.seen.get(place)
            if not positions or (known is not None and len(known) != len(values)):
                continue
            if known is None:
                self.seen[place] = _only(values, positions)
                changes = [_Change(call, _only(before, positions)) for call, before in other.changes.get(place, ())]
                self.changes[place] = deque(changes, maxlen=_CALLS)
            self.varying.setdefault(place, set()).update(positions)

    def repeat(self, seen: Mapping[str, tuple[Any, ...]]) -> None:
        """Notes a call in which these values were seen."""
        self.begin()
        for place, values in seen.items():
            self.observe(place, values)

    def told(self) -> Told:
        """What the calls so far have shown, for other processes."""
        return Told(dict(self.seen), {place: sorted(positions) for place, positions in self.varying.items() if positions})

    def hear(self, others: Sequence[Told]) -> bool:
        """Takes the calls that other processes have made for earlier calls of this one. Returns whether that changes how the call
        is traced: a position is dynamic that was not, or two values that share a symbol differ elsewhere."""
        own = self.told()
        for other in others:
            alike = [place for place in other.seen if len(self.seen.get(place, other.seen[place])) == len(other.seen[place])]
            self.repeat({place: other.seen[place] for place in alike})
            for place in alike:
                self.varying.setdefault(place, set()).update(other.varying.get(place, ()))
        self.repeat(own.seen)
        now = self.told().varying
        grown = any(now.get(place, []) != own.varying.get(place, []) for place in own.seen)
        return grown or any(own.takes_for_one(other) for other in others)

    def policies(self, place: str, values: Sequence[Any], default: DimPolicy = DimPolicy.STATIC) -> list[DimPolicy]:
        """The policy of each position after this call: duck-shaped where it has varied."""
        varying = self.observe(place, values)
        return [DimPolicy.DUCK if i in varying else default for i in range(len(values))]


def _only(values: tuple[Any, ...], positions: set[int]) -> tuple[Any, ...]:
    return tuple([value if index in positions else None for index, value in enumerate(values)])
