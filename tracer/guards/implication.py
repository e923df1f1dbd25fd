"""Whether the guards of one entry follow from those of another, apart from shapes.

The later of the two entries has just been traced, and both serve in the present state of the process. Guards that compare this
state (torch's settings, classes, filters of warnings) therefore compare it with the same values in both. The answer False means
that nothing was proved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from tracer.guards.base import Guard
from tracer.guards.demands import Demand, Equal, OfType, Tensor
from tracer.guards.references import ObjectRef
from tracer.sources.base import Source
from tracer.sources.tensors import TensorSizeSource, TensorStrideSource

_G = TypeVar("_G", bound=Guard)


def implied_beside_shapes(stronger: Iterable[Guard], weaker: Iterable[Guard]) -> bool:
    """Whether `weaker` holds whenever `stronger` does, apart from sizes, strides and expressions over them."""
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
    """Guards that hold, in tables for `Guard.follows_from`."""

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
        """Whether a demand for an exact type follows from one of the guards."""
        return isinstance(demand, OfType) and demand in self._types

    def of(self, kind: type[_G]) -> list[_G]:
        """The known guards of a kind."""
        return [guard for guard in self.guards if type(guard) is kind]

    def on(self, source: Source) -> Sequence[Guard]:
        """The known guards that read a source."""
        return self._on.get(source, ())
