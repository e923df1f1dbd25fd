"""What the traced program changed: containers, attributes, cells and globals.

No user object is touched while tracing; the log is replayed once, by the cached code, after the graph has run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tracer.effects.cached_results import Kept
from tracer.effects.lifetimes import give_up, give_up_attribute, give_up_object
from tracer.effects.places import EffectPlaces, ToldEffect
from tracer.effects.random_draws import Draw
from tracer.graph_breaks import unsupported
from tracer.locations import UserLocation
from tracer.protocol.variable import VariableTracker

if TYPE_CHECKING:
    from tracer.effects.deferred_calls import DeferredCall


class Deleted:
    """Stands for an attribute or global that the traced program deleted."""


DELETED = Deleted()
AttributeValue = VariableTracker | Deleted


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__qualname__


class Effects:
    """Mutations, in the order in which each target was first changed."""

    def __init__(self, where: Callable[[], UserLocation | None] = lambda: None) -> None:
        """`where` gives the line that is traced now."""
        self._places = EffectPlaces(where)
        self.mutated: dict[VariableTracker, None] = {}
        self._attributes: dict[VariableTracker, dict[str, AttributeValue]] = {}
        self._set_again: set[tuple[VariableTracker, str]] = set()  # deleted first: they come last in their __dict__
        self._classes: dict[str, list[type]] = {}  # the classes of which the attribute was stored
        self._globals: dict[tuple[int, str], AttributeValue] = {}
        self._global_dicts: dict[int, dict[str, Any]] = {}
        self.calls: list[DeferredCall] = []
        self.draws: list[Draw] = []  # in order
        self.kept = Kept()
        self.observer: Callable[[VariableTracker | None], None] | None = None  # is told of a change before it happens

    @contextlib.contextmanager
    def observed_by(self, observer: Callable[[VariableTracker | None], None]) -> Iterator[None]:
        """Within, `observer` is told of each change before it happens: of what, or None for a global or a deferred call."""
        outer, self.observer = self.observer, observer
        try:
            yield
        finally:
            self.observer = outer

    def mutate(self, target: VariableTracker) -> None:
        """`target`'s contents are about to change."""
        self._begin(target)
        self._places.note(target)

    def _begin(self, target: VariableTracker) -> None:
        """`target`, or an attribute of it, is about to change."""
        if target in self.kept.parts:
            unsupported("change-of-a-cached-result", value=target.describe())
        self._tell(target)
        self.mutated.setdefault(target)

    def draw(self, draw: Draw) -> int:
        """A generator of random numbers is used, or made. Which draw it is."""
        if draw.generator is not None:
            self._begin(draw.generator)
        self._places.note("draw", len(self.draws))
        self.draws.append(draw)
        return len(self.draws) - 1

    def _tell(self, target: VariableTracker | None) -> None:
        if self.observer is not None:
            self.observer(target)

    def store_attribute(self, target: VariableTracker, name: str, value: AttributeValue) -> None:
        self._give_up_attribute(target, name)
        self._begin(target)
        self._places.note(target, name)
        attributes = self._attributes.setdefault(target, {})
        if attributes.get(name) is DELETED:
            del attributes[name]
            self._set_again.add((target, name))
        attributes[name] = value

    def delete_attribute(self, target: VariableTracker, name: str, existed: bool) -> None:
        """`existed`: before the frame ran; what the trace itself has stored is forgotten."""
        self._give_up_attribute(target, name)
        self._begin(target)
        self._places.note(target, name)
        attributes = self._attributes.setdefault(target, {})
        attributes.pop(name, None)
        if existed:
            attributes[name] = DELETED

    def forget(self, target: VariableTracker) -> None:
        """The object is gone, and nobody has seen it."""
        self.mutated.pop(target, None)
        self._attributes.pop(target, None)

    def _give_up_attribute(self, target: VariableTracker, name: str) -> None:
        stored = self._attributes.get(target, {}).get(name)
        if stored is None:
            give_up_attribute(target, name)
        elif isinstance(stored, VariableTracker):
            give_up((stored,), f"the attribute {name!r}")

    def is_set_again(self, target: VariableTracker, name: str) -> bool:
        """Whether an attribute that existed was deleted, then stored."""
        return (target, name) in self._set_again

    def store_class_attribute(self, target: VariableTracker, cls: type, name: str, value: AttributeValue) -> None:
        self._tell(None)
        self._classes.setdefault(name, []).append(cls)
        self.store_attribute(target, name, value)

    def is_class_changed(self, cls: type, name: str) -> bool:
        """Whether looking `name` up in `cls` would meet a class of which the trace stored that attribute."""
        return name in self._classes and any(issubclass(cls, changed) for changed in self._classes[name])

    def attribute(self, target: VariableTracker, name: str) -> VariableTracker | None:
        """The stored value of an attribute, None if it was not stored or was deleted."""
        value = self._attributes.get(target, {}).get(name)
        return None if isinstance(value, Deleted) else value

    def is_deleted(self, target: VariableTracker, name: str) -> bool:
        return self._attributes.get(target, {}).get(name) is DELETED

    def attributes(self, target: VariableTracker) -> dict[str, AttributeValue]:
        return self._attributes.get(target, {})

    def held_by(self, target: VariableTracker) -> list[VariableTracker]:
        """What a value leads to: its parts, and what the trace stored in its attributes."""
        stored = self.attributes(target).values()
        return [*target.children(), *(value for value in stored if isinstance(value, VariableTracker))]

    def store_global(self, globals_: dict[str, Any], name: str, value: AttributeValue) -> None:
        stored = self._globals.get((id(globals_), name))
        if stored is None:
            give_up_object(globals_.get(name), f"the global {name!r}")
        elif isinstance(stored, VariableTracker):
            give_up((stored,), f"the global {name!r}")
        self._tell(None)
        self._places.note("global", id(globals_), name)
        self._global_dicts[id(globals_)] = globals_
        self._globals[id(globals_), name] = value

    def global_value(self, globals_: dict[str, Any], name: str) -> AttributeValue | None:
        return self._globals.get((id(globals_), name))

    def stored_globals(self) -> Iterator[tuple[dict[str, Any], str, AttributeValue]]:
        for (key, name), value in self._globals.items():
            yield self._global_dicts[key], name, value

    def defer(self, call: DeferredCall) -> None:
        """The output code makes a call, after the graph."""
        self._tell(None)
        self._places.note("call", len(self.calls))
        self.calls.append(call)

    def told(self) -> Iterator[ToldEffect]:
        """What the output code replays on what existed before the frame ran."""
        for index, draw in enumerate(self.draws):
            yield self._places.told(f"draw: {_name(draw.function)}", "draw", index)
        for index, call in enumerate(self.calls):
            yield self._places.told(f"call: {_name(call.function)}", "call", index)
        for target in self.mutated:
            if target.source is None:
                continue
            if (target,) in self._places:
                yield self._places.told(f"change of {target.python_type().__name__} {target.source.name}", target)
            for name, value in self.attributes(target).items():
                verb = "delete" if value is DELETED else "store"
                yield self._places.told(f"{verb} attribute {target.source.name}.{name}", target, name)
        for globals_, name, value in self.stored_globals():
            verb = "delete" if value is DELETED else "store"
            yield self._places.told(f"{verb} global {name}", "global", id(globals_), name)

    def __bool__(self) -> bool:
        return bool(self.mutated or self._globals or self.calls)
