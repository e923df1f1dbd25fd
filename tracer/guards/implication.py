"""Whether the guards of one entry say all that those of another say, shapes apart.

Both entries serve in the state that the process is in now, as after the trace of the later one: what is compared with the state
of the process (torch's settings, classes, filters of warnings) is then compared with the same by both. A False says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tracer.guards.base import Guard
from tracer.guards.constants import EqualsMatch
from tracer.guards.identity import TypeMatch
from tracer.guards.references import ObjectRef
from tracer.guards.shapes import ShapeGuards, ShapeLine
from tracer.guards.state import AbcRegistryMatch, GlobalStateMatch, WarningFiltersMatch
from tracer.guards.tensors import MarksMatch, TensorMatch, TensorSpec
from tracer.guards.unchanged import Unchanged
from tracer.sources import Source
from tracer.sources.tensors import TensorSizeSource, TensorStrideSource


def implied_beside_shapes(stronger: Iterable[Guard], weaker: Iterable[Guard]) -> bool:
    """Whether `weaker` holds wherever `stronger` does, sizes, strides and expressions over them apart."""
    known = _Known(stronger)
    return all(known.implies(guard) for guard in weaker)


def constants(guards: Iterable[Guard]) -> Iterator[tuple[Source, int]]:
    """The sizes, strides and ints that are compared with constants."""
    for guard in guards:
        if isinstance(guard, EqualsMatch) and type(guard.value) is int:
            yield guard.source, guard.value
        if isinstance(guard, TensorMatch):
            for kind, dims in ((TensorSizeSource, guard.spec.sizes), (TensorStrideSource, guard.spec.strides)):
                for dim, value in enumerate(dims or ()):
                    if value is not None:
                        yield kind(guard.source, dim), value


class _Known:
    """The guards that are met, by what others ask of them."""

    def __init__(self, guards: Iterable[Guard]) -> None:
        self.guards = frozenset(guards)
        self.tensors = {guard.source: guard.spec for guard in self.guards if isinstance(guard, TensorMatch)}
        values = [guard for guard in self.guards if isinstance(guard, EqualsMatch) and type(guard.value) is not ObjectRef]
        self.types = {TypeMatch(guard.source, type(guard.value)) for guard in values}

    def implies(self, guard: Guard) -> bool:
        if isinstance(guard, (ShapeGuards, ShapeLine)):
            return True
        if isinstance(guard, TensorMatch):
            spec = self.tensors.get(guard.source)
            return spec is not None and _alike(spec, guard.spec)
        if isinstance(guard, GlobalStateMatch):
            return guard.snapshot.check() and any(each.snapshot.check() for each in self._of(GlobalStateMatch))
        if isinstance(guard, WarningFiltersMatch):
            return guard.hold() and any(each.hold() for each in self._of(WarningFiltersMatch))
        if isinstance(guard, Unchanged):
            return guard.holds() and any(each.holds() and _names(guard) <= _names(each) for each in self._of(Unchanged))
        if isinstance(guard, MarksMatch):
            return any(_marks(guard) == _marks(each) and _looks_less(guard, each) for each in self._of(MarksMatch))
        if isinstance(guard, AbcRegistryMatch):
            return False  # the token was read when the check was made, and is not kept
        return guard in self.guards or guard in self.types

    def _of(self, kind: type[Any]) -> list[Any]:
        return [guard for guard in self.guards if type(guard) is kind]


def _alike(stronger: TensorSpec, weaker: TensorSpec) -> bool:
    """All but the numbers in sizes and strides, which are facts for the solver; a rank that is compared has to be known."""
    for known, asked in ((stronger.sizes, weaker.sizes), (stronger.strides, weaker.strides)):
        if asked is not None and (known is None or len(known) != len(asked)):
            return False
    return stronger._replace(sizes=None, strides=None) == weaker._replace(sizes=None, strides=None)


def _names(guard: Unchanged) -> set[Any]:
    """What is looked up: that both hold now says that they find the same."""
    found = {(facts.cls, each.name, each.after) for facts in guard.classes for each in facts.found}
    return found | {(facts.cls,) for facts in guard.classes} | {fact.function for fact in guard.functions}


def _looks_less(weaker: MarksMatch, stronger: MarksMatch) -> bool:
    """Whether marks are looked at by the weaker one only where the stronger one does, from now on: their count only grows."""
    now = weaker.changes.count
    return stronger.count <= weaker.count or (stronger.count < now and weaker.count < now)


def _marks(guard: MarksMatch) -> tuple[Any, ...]:
    return guard.group, guard.attribute, guard.marks
