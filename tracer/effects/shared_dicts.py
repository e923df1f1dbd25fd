"""Dicts that several tracked values stand for: attributes of two objects (`self.__dict__ = shared`), those of an object that is
its own dict (`self.__dict__ = self`), keywords of a partial object. A change of one would have to show in the others, and breaks
the graph."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.protocol.variable import whole

if TYPE_CHECKING:
    from tracer.protocol.variable import VariableTracker


class SharedDicts:
    def __init__(self) -> None:
        self._first: dict[int, tuple[Any, VariableTracker]] = {}  # of each dict, by its id: the dict, and what was met first
        self._shared: set[VariableTracker] = set()
        self._read: dict[int, Any] = {}  # by id

    def note(self, held: Any, variable: VariableTracker, changed: Container[VariableTracker]) -> None:
        """`variable` is, or keeps its attributes in, the dict `held`. `changed`: what the trace has changed so far."""
        first = self._first.setdefault(id(held), (held, variable))[1]
        if first is not variable or id(held) in self._read:
            self._shared |= {first, variable}
            if first in changed:
                self.refuse_change(first)

    def note_read(self, held: Any, changed: Container[VariableTracker]) -> None:
        """The trace reads the dict `held` item by item, apart from what stands for it."""
        self._read[id(held)] = held
        if id(held) in self._first:
            self.note(held, self._first[id(held)][1], changed)

    def note_copy(self, variable: VariableTracker) -> None:
        """`variable` stands for a dict that something else reads: it is to be read only."""
        self._shared.add(variable)

    def refuse_change(self, target: VariableTracker) -> None:
        """Breaks the graph where something else stands for the dict that is about to change."""
        if target in self._shared:
            unsupported("mutation-of-input", value=f"{target.describe()}, whose dict another value shares,")


def may_be_its_own_dict(target: VariableTracker) -> bool:
    """Whether what is changed is part of an object that existed before the frame ran, of a class of dicts with attributes."""
    cls = type(whole(target).identity())
    return cls is not dict and issubclass(cls, dict) and bool(cls.__dictoffset__)
