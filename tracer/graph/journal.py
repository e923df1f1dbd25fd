"""The journal of one trace: what it did, in order, so that a part of it can be done once more for another object of the same
structure (`interpreter.replay`). It is written in any case, and knows nothing of who reads it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import fx

    from tracer.guards.base import Guard
    from tracer.protocol.variable import VariableTracker


@dataclasses.dataclass(slots=True, eq=False)
class Recorded:
    """A call of a method of `OutputGraph` that may make nodes: `method(*arguments)`, what it gave, and the nodes made."""

    method: str
    arguments: tuple[Any, ...]
    result: VariableTracker | None = None
    nodes: list[fx.Node] = dataclasses.field(default_factory=list)

    @property
    def given(self) -> tuple[Any, ...]:
        """Those of the arguments that hold nodes and constants: the rest says which operation it is."""
        return self.arguments[_GIVEN[self.method]]

    def with_given(self, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments with others in the place of `given`."""
        arguments = list(self.arguments)
        arguments[_GIVEN[self.method]] = given
        return tuple(arguments)


_GIVEN = {"_call": slice(3, 5), "symbolic_result": slice(1, 3), "measure": slice(0, 3)}


@dataclasses.dataclass(slots=True, eq=False)
class Met:
    """An object of the program that was met for the first time: by the builder of its type, or elsewhere."""

    value: Any
    variable: VariableTracker
    by_builder: bool


@dataclasses.dataclass(slots=True, eq=False)
class Unrepeatable:
    """Something that is not done once more from the journal, in words."""

    what: str


Event = Recorded | Met | Unrepeatable


class Journal:
    """Events and guards in the order in which they came."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.guards: list[Guard] = []  # each once, when it was new
        self.first_guard: dict[VariableTracker, int] = {}  # how many guards there were when an object was met
        self._open: Recorded | None = None

    @contextlib.contextmanager
    def recording(self, method: str, *arguments: Any) -> Iterator[Recorded]:
        """Around one call of a method of the graph. What it calls in turn belongs to it."""
        event = Recorded(method, arguments)
        outer = self._open
        if outer is None:
            self.events.append(event)
            self._open = event
        try:
            yield event
        finally:
            self._open = outer

    def made(self, node: fx.Node) -> None:
        """A node was added to the graph."""
        if self._open is None:
            self.refuse(f"it adds {node.target} to the graph in a way of its own")
        else:
            self._open.nodes.append(node)

    def met(self, value: Any, variable: VariableTracker, by_builder: bool) -> None:
        """`variable` represents an object from now on."""
        self.events.append(Met(value, variable, by_builder))
        self.first_guard[variable] = len(self.guards)

    def refuse(self, what: str) -> None:
        """What happens here is not repeated from the journal. `what` is a clause: "it calls id()"."""
        self.events.append(Unrepeatable(what))

    def clear(self) -> None:
        """Drops all that it holds, at the end of the trace."""
        self.events.clear()
        self.guards.clear()
        self.first_guard.clear()
        self._open = None
