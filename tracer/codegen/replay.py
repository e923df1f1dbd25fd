"""Output code that replays the side effects of a trace: once, after the graph, in the order in which their targets were first
changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tracer.effects.log import Deleted, Effects
from tracer.graph_breaks import unsupported
from tracer.protocol.lazy import Unwrapped
from tracer.protocol.variable import VariableTracker
from tracer.variables.builders.context_variables import ContextVarVariable
from tracer.variables.containers.deques import DequeVariable
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import ListVariable
from tracer.variables.containers.sets import SetVariable
from tracer.variables.functions.python_functions import CellVariable
from tracer.variables.iteration import IteratorVariable
from tracer.variables.iterators.existing_iterators import CountStream, EnumerateStream, StreamVariable
from tracer.variables.values.constant import ConstantVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import ValueCodegen


_REPLAYED = (ListVariable, DictVariable, SetVariable, DequeVariable, CellVariable, ContextVarVariable)


def replay(cg: ValueCodegen, effects: Effects) -> None:
    """Emits the changes of objects that existed before the frame ran. Objects that the trace made need none: they are built in
    their final state."""
    for call in effects.calls:
        cg.fallback = None
        values = [lambda value=value: cg.load_const(value) for value in call.values]
        cg.call_object(call.function, *values, *[lambda value=value: cg.load(value) for value in call.arguments])
        cg.asm.pop()
    targets = [target for target in effects.mutated if target.source is not None]
    iterated = _IteratedContainers(targets)
    for target in targets:
        for value in _replayed_values(effects, target):
            iterated.keep(cg, value)
    for _, _, stored in effects.stored_globals():
        if isinstance(stored, VariableTracker):
            iterated.keep(cg, stored)
    for target in targets:
        cg.keep(target)
    if effects:
        cg.fallback = None
    for target in sorted(targets, key=lambda target: not isinstance(target, EnumerateStream)):  # they advance streams themselves
        if isinstance(target, (StreamVariable, EnumerateStream, CountStream)):  # before what they iterate over changes
            target.replay(cg)
    for target in iterated.ordered(effects):
        if isinstance(target, _REPLAYED):
            target.replay(cg)
        if effects.attributes(target):
            cg.store_attributes(target)
    for globals_, name, stored in effects.stored_globals():
        if isinstance(stored, Deleted):  # pop with a default: if the trace itself had stored it first, it does not exist
            cg.call_object(dict.pop, *_key(cg, globals_, name), lambda: cg.load_const(None))
            cg.asm.pop()
        else:
            cg.load(stored)
            for load in _key(cg, globals_, name):
                load()
            cg.asm.emit("STORE_SUBSCR")


class _IteratedContainers:
    """Orders replays so that an iterator is made after the container that it iterates over got its final contents: iterators of
    dicts and sets compare sizes with those at their start."""

    def __init__(self, targets: list[VariableTracker]) -> None:
        self.targets = dict.fromkeys(targets)

    def keep(self, cg: ValueCodegen, value: VariableTracker | Unwrapped) -> None:
        if not self._containers(value):
            cg.keep(value)
            return
        for part in _parts(value):  # parts that are read from the program's objects can be read now
            if isinstance(part, Unwrapped) or part.source is not None:
                cg.keep(part)

    def ordered(self, effects: Effects) -> list[VariableTracker]:
        """The targets; each comes after the containers that the iterators in it iterate over."""
        finished: dict[VariableTracker, None] = {}
        for target in self.targets:
            self._finish(effects, target, finished, set())
        return list(finished)

    def _finish(
        self,
        effects: Effects,
        target: VariableTracker,
        finished: dict[VariableTracker, None],
        begun: set[VariableTracker],
    ) -> None:
        if target in finished:
            return
        if target in begun:
            unsupported("cannot-reconstruct", value="an iterator over what holds it")
        begun.add(target)
        for value in _replayed_values(effects, target):
            for container in self._containers(value):
                self._finish(effects, container, finished, begun)
        finished[target] = None

    def _containers(self, value: VariableTracker | Unwrapped) -> list[VariableTracker]:
        over = [part.container() for part in _parts(value) if isinstance(part, IteratorVariable)]
        return [container for container in over if container in self.targets]


def _parts(value: VariableTracker | Unwrapped) -> Iterator[VariableTracker | Unwrapped]:
    """A value and, if the trace made it, all that it holds."""
    seen: set[VariableTracker | Unwrapped] = set()
    todo = [value]
    while todo:
        part = todo.pop()
        if part in seen or isinstance(part, ConstantVariable):
            continue
        seen.add(part)
        yield part
        if not isinstance(part, Unwrapped) and part.source is None:
            todo.extend(part.children())


def _key(cg: ValueCodegen, globals_: dict[str, Any], name: str) -> tuple[Callable[[], None], Callable[[], None]]:
    return lambda: cg.load_globals(globals_), lambda: cg.load_const(name)


def _replayed_values(effects: Effects, target: VariableTracker) -> list[VariableTracker | Unwrapped]:
    """The values that the replay of `target` loads. They must be read before anything changes."""
    stored = effects.attributes(target).values()
    parts = target.replayed() if isinstance(target, (ListVariable, DictVariable, DequeVariable)) else target.children()
    return [*parts, *(value for value in stored if isinstance(value, VariableTracker))]
