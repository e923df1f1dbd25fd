"""The journal of one trace: what it did, in order, so that a part of it can be done once more for another object of the same
structure (`interpreter.replay`). It knows nothing of who reads it; where nobody does, nothing is written (`NoJournal`)."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import fx

    from tracer.graph.output_graph import OutputGraph
    from tracer.guards.base import Guard
    from tracer.operators.results import NewTensor
    from tracer.protocol.variable import VariableTracker
    from tracer.sources.base import Source


@dataclasses.dataclass(slots=True, eq=False)
class Recorded:
    """A call of a method of `OutputGraph` that may make nodes: `method(*arguments)`, what it gave, the nodes made, and whether it
    wrote to a tensor."""

    method: str
    arguments: tuple[Any, ...]
    result: VariableTracker | None = None
    writes: bool = False
    nodes: list[fx.Node] = dataclasses.field(default_factory=list)

    @property
    def given(self) -> tuple[Any, ...]:
        """Those of the arguments that hold nodes and constants: the rest says which operation it is."""
        return self.arguments[_GIVEN[self.method]]

    def repeat(self, output: OutputGraph, given: tuple[Any, ...]) -> VariableTracker:
        """Records it once more in the graph, with others in the place of `given`."""
        arguments = list(self.arguments)
        arguments[_GIVEN[self.method]] = given
        record: Callable[..., VariableTracker] = getattr(output, self.method)
        return record(*arguments)


_GIVEN = {"_call": slice(3, 5), "symbolic_result": slice(1, 3), "measure": slice(0, 3)}


@dataclasses.dataclass(slots=True, eq=False)
class Met:
    """An object of the program that was met for the first time: by the builder of its type, or elsewhere. One that is expected
    has no variable: it is at `place`, nothing has asked for it, and its variable would be of class `kind`."""

    value: Any
    variable: VariableTracker | None
    by_builder: bool
    place: Source | None = None
    kind: type[VariableTracker] | None = None
    guards: int = 0  # how many there were
    events: int = 0

    @property
    def source(self) -> Source | None:
        return self.place if self.variable is None else self.variable.source


class Reached(NamedTuple):
    """The result of a copied operation that the program can reach, and how to make another fake like its own."""

    variable: VariableTracker
    like: NewTensor


@dataclasses.dataclass(slots=True, eq=False)
class Copied:
    """Operations that were recorded as copies of earlier ones, in order."""

    nodes: list[fx.Node]
    reached: dict[fx.Node, Reached]


@dataclasses.dataclass(slots=True, eq=False)
class Unrepeatable:
    """Something that is not done once more from the journal, in words."""

    what: str


Event = Recorded | Copied | Met | Unrepeatable


class Journal:
    """Events and guards in the order in which they came."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.guards: list[Guard] = []  # each once, when it was new
        self.first_guard: dict[VariableTracker, int] = {}  # how many guards there were when an object was met
        self._met_at: dict[VariableTracker, int] = {}  # how many events
        self._open: Recorded | None = None

    def recording(self, method: str, *arguments: Any) -> contextlib.AbstractContextManager[Any]:
        """Around one call of a method of the graph. What it calls in turn belongs to it."""
        return self._recording(method, arguments)

    @contextlib.contextmanager
    def _recording(self, method: str, arguments: tuple[Any, ...]) -> Iterator[Recorded]:
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

    def copied(self, nodes: list[fx.Node], reached: dict[fx.Node, Reached]) -> None:
        """Nodes were added that are copies of earlier ones."""
        self.events.append(Copied(nodes, reached))

    def met(self, value: Any, variable: VariableTracker, by_builder: bool) -> None:
        """`variable` represents an object from now on."""
        self.events.append(Met(value, variable, by_builder))
        self.first_guard[variable] = len(self.guards)
        self._met_at[variable] = len(self.events)

    def expected(self, value: Any, source: Source, kind: type[VariableTracker]) -> Met:
        """An object of the program is at `source`: what comes of that is known, and its variable may come later."""
        event = Met(value, None, True, source, kind, len(self.guards), len(self.events) + 1)
        self.events.append(event)
        return event

    def met_as_expected(self, event: Met, variable: VariableTracker) -> None:
        """The variable of an expected object is made. It was met when it was expected."""
        event.variable = variable
        self.first_guard[variable] = event.guards
        self._met_at[variable] = event.events

    def is_met_after(self, variable: VariableTracker, events: int) -> bool:
        """Whether an object of the program was met for the first time when there were more events than these."""
        return self._met_at.get(variable, 0) > events

    def guarded(self, guard: Guard) -> None:
        """The trace relies on a guard that was not there before."""
        self.guards.append(guard)

    def refuse(self, what: str) -> None:
        """What happens here is not repeated from the journal. `what` is a clause: "it calls id()"."""
        self.events.append(Unrepeatable(what))

    def clear(self) -> None:
        """Drops all that it holds, at the end of the trace."""
        self.events.clear()
        self.guards.clear()
        self.first_guard.clear()
        self._met_at.clear()
        self._open = None


class NoJournal(Journal):
    """A journal of a trace that nobody reads: nothing is written."""

    def recording(self, method: str, *arguments: Any) -> contextlib.AbstractContextManager[Any]:
        return _FORGOTTEN

    def made(self, node: fx.Node) -> None:
        pass

    def copied(self, nodes: list[fx.Node], reached: dict[fx.Node, Reached]) -> None:
        pass

    def met(self, value: Any, variable: VariableTracker, by_builder: bool) -> None:
        pass

    def guarded(self, guard: Guard) -> None:
        pass

    def refuse(self, what: str) -> None:
        pass


class _Forgotten:
    """In place of an event: takes a result, and keeps none."""

    def __enter__(self) -> _Forgotten:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __setattr__(self, name: str, value: Any) -> None:
        pass


_FORGOTTEN = _Forgotten()
