"""Dicts that several tracked values stand for: the attributes of two objects (`self.__dict__ = shared`), or those of an object that
is the dict itself (`self.__dict__ = self`). A change of one would have to show in the others, so it breaks the graph."""

from __future__ import annotations

from collections.abc import Container
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported

if TYPE_CHECKING:
    from tracer.protocol.variable import VariableTracker


class SharedDicts:
    def __init__(self) -> None:
        self._first: dict[int, tuple[Any, VariableTracker]] = {}  # of each dict, by its id: the dict, and what was met first
        self._shared: set[VariableTracker] = set()

    def note(self, held: Any, variable: VariableTracker, changed: Container[VariableTracker]) -> None:
        """`variable` is, or keeps its attributes in, the dict `held`. `changed`: what the trace has changed so far."""
        first = self._first.setdefault(id(held), (held, variable))[1]
        if first is not variable:
            self._shared |= {first, variable}
            if first in changed:
                self.refuse_change(first)

    def refuse_change(self, target: VariableTracker) -> None:
        """Breaks the graph where something else stands for the dict that is about to change."""
        if target in self._shared:
            unsupported("mutation-of-input", value=f"{target.describe()}, whose dict another value shares,")
