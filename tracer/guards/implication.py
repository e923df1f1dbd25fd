"""Whether the guards of one entry say all that those of another say, shapes apart.

Both entries serve in the state that the process is in now, as after the trace of the later one: what is compared with the state
of the process (torch's settings, classes, filters of warnings) is then compared with the same by both. A False says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from tracer.guards.base import Guard
from tracer.guards.demands import Demand, Equal, OfType, Tensor
from tracer.guards.references import ObjectRef
from tracer.sources import Source
from tracer.sources.tensors import TensorSizeSource, TensorStrideSource

_G = TypeVar("_G", bound=Guard)


def implied_beside_shapes(stronger: Iterable[Guard], weaker: Iterable[Guard]) -> bool:
    """Whether `weaker` holds wherever `stronger` does, sizes, strides and expressions over them apart."""
    known = Known(stronger)
    return all(guard.follows_from(known) for guard in weaker)


def constants(guards: Iterable[Guard]) -> Iterator[tuple[Source, int]]:
    """The sizes, strides and ints that are compared with constants."""
    for guard in guards:
        for demand in guard.demands():
            if isinstance(demand, Equal) and type(demand.value) is int:
                yield demand.source, demand.value
            if isinstance(demand, Tensor):
                for kind, dims in ((TensorSizeSource, demand.spec.sizes), (TensorStrideSource, demand.spec.strides)):
                    for dim, value in enumerate(dims or ()):
                        if value is not None:
                            yield kind(demand.source, dim), value


class Known:
    """Guards that hold, by what others ask of them."""

    def __init__(self, guards: Iterable[Guard]) -> None:
        self.guards = frozenset(guards)
        self._types: set[Demand] = set()
        self._on: dict[Source, list[Guard]] = {}
        for guard in self.guards:
            for source in guard.sources():
                self._on.setdefault(source, []).append(guard)
            for demand in guard.demands():
                if isinstance(demand, OfType):
                    self._types.add(demand)
                elif isinstance(demand, Equal):
                    self._types.add(OfType(demand.source, ObjectRef(type(demand.value))))

    def shows(self, demand: Demand) -> bool:
        """Whether a type that is demanded follows from another guard."""
        return isinstance(demand, OfType) and demand in self._types

    def of(self, kind: type[_G]) -> list[_G]:
        """Those of a kind."""
        return [guard for guard in self.guards if type(guard) is kind]

    def on(self, source: Source) -> Sequence[Guard]:
        """Those that read a source."""
        return self._on.get(source, ())
