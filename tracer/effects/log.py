"""The side effects of a trace: changes of containers, attributes, cells and globals, and calls after the graph.

Tracing changes no object of the program. The output code replays this log once, after the graph has run.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tracer.effects.cached_results import CachedResults
from tracer.effects.handed_over import HandedOver
from tracer.effects.lifetimes import check_attribute_release, check_object_release, check_release, held_before
from tracer.effects.places import DescribedEffect, EffectPlaces
from tracer.effects.random_draws import Draw
from tracer.effects.shared_dicts import SharedDicts
from tracer.locations import UserLocation
from tracer.protocol.variable import VariableTracker
from tracer.sources.roots import LocalSource

if TYPE_CHECKING:
    from tracer.effects.deferred_calls import DeferredCall


class Deleted:
    """The value in the log of an attribute or global that the traced program deleted."""


DELETED = Deleted()
AttributeValue = VariableTracker | Deleted


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__qualname__


class Effects:
    """The side effects of one trace. `mutated`: the changed values, in the order in which each was first changed."""

    def __init__(self, where: Callable[[], UserLocation | None] = lambda: None) -> None:
        """`where` gives the line that is traced now."""
        self._places = EffectPlaces(where)
        self.mutated: dict[VariableTracker, None] = {}
        self._attributes: dict[VariableTracker, dict[str, AttributeValue]] = {}
        self._deleted_and_set: set[tuple[VariableTracker, str]] = set()  # attributes that moved to the end of their __dict__
        self._classes: dict[str, list[type]] = {}  # attribute -> the classes on which the trace stored it
        self._globals: dict[tuple[int, str], AttributeValue] = {}
        self._global_dicts: dict[int, dict[str, Any]] = {}
        self._replaced: dict[tuple[int, str], tuple[Any, int]] = {}  # what globals held before, and the step of the first store
        self.calls: list[DeferredCall] = []  # in order
        self.draws: list[Draw] = []  # random numbers, in order
        self.cached = CachedResults()
        self.handed_over = HandedOver()
        self._shared_dicts = SharedDicts()
        self.changes: list[VariableTracker | None] = []  # what was about to change, each time; None as for `observer`
        self.answered = 0  # how many reads of what existed before the frame ran this log has answered
        self._has_changed_contents = False  # of something that existed before the frame ran
        self.observer: Callable[[VariableTracker | None], None] | None = None  # called before each change

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
        self._has_changed_contents |= target.source is not None
        self._begin(target)
        self._places.note(target)

    def note_dict(self, held: Any, variable: VariableTracker) -> None:
        """`variable`, which existed before, is the dict `held`, or keeps its attributes or items in it."""
        self._shared_dicts.note(held, variable, self.mutated)

    def note_copy(self, variable: VariableTracker) -> None:
        """A dict that stands for one which is read elsewhere."""
        self._shared_dicts.note_copy(variable)

    def note_read(self, held: dict[str, Any]) -> None:
        """The items of a dict that existed before are read without the variable of the dict."""
        self._shared_dicts.note_read(held, self.mutated)

    def _begin(self, target: VariableTracker) -> None:
        """`target`, or an attribute of it, is about to change."""
        self.cached.refuse_change(target)
        self._shared_dicts.refuse_change(target)
        self.handed_over.refuse_change(target)
        self._notify_observer(target)
        self.mutated.setdefault(target)

    def draw(self, draw: Draw) -> int:
        """Records the use, or the making, of a random number generator; returns the index of the draw."""
        if draw.generator is not None:
            self._begin(draw.generator)
        self._places.note("draw", len(self.draws))
        self.draws.append(draw)
        return len(self.draws) - 1

    def _notify_observer(self, target: VariableTracker | None) -> None:
        self.changes.append(target)
        if self.observer is not None:
            self.observer(target)

    def store_attribute(self, target: VariableTracker, name: str, value: AttributeValue) -> None:
        self._check_attribute_finalizer(target, name)
        self._begin(target)
        self._places.note(target, name)
        attributes = self._attributes.setdefault(target, {})
        if attributes.get(name) is DELETED:
            del attributes[name]
            self._deleted_and_set.add((target, name))
        attributes[name] = value

    def delete_attribute(self, target: VariableTracker, name: str, existed: bool) -> None:
        """`existed`: whether the attribute existed before the frame ran. If not, its store is just removed from the log."""
        self._check_attribute_finalizer(target, name)
        self._begin(target)
        self._places.note(target, name)
        attributes = self._attributes.setdefault(target, {})
        attributes.pop(name, None)
        if existed:
            attributes[name] = DELETED

    def forget(self, target: VariableTracker) -> None:
        """Removes the changes of an object that the trace made and that nothing can reach any more."""
        self.mutated.pop(target, None)
        self._attributes.pop(target, None)

    def _check_attribute_finalizer(self, target: VariableTracker, name: str) -> None:
        stored = self._attributes.get(target, {}).get(name)
        if stored is None:
            check_attribute_release(target, name)
        elif isinstance(stored, VariableTracker):
            check_release((stored,), f"the attribute {name!r}")

    def was_deleted_and_set(self, target: VariableTracker, name: str) -> bool:
        """Whether an attribute that existed before the frame ran was deleted and then stored."""
        return (target, name) in self._deleted_and_set

    def store_class_attribute(self, target: VariableTracker, cls: type, name: str, value: AttributeValue) -> None:
        self._notify_observer(None)
        self._classes.setdefault(name, []).append(cls)
        self.store_attribute(target, name, value)

    def is_class_changed(self, cls: type, name: str) -> bool:
        """Whether a lookup of `name` in `cls` passes a class on which the trace stored that attribute."""
        return name in self._classes and any(issubclass(cls, changed) for changed in self._classes[name])

    def has_changed_class(self, cls: type) -> bool:
        """Whether the trace stored an attribute on this very class."""
        return any(cls in changed for changed in self._classes.values())

    def attribute(self, target: VariableTracker, name: str) -> VariableTracker | None:
        """The value that the trace stored in an attribute; None if it stored none, or deleted the attribute."""
        value = self._attributes.get(target, {}).get(name)
        self.answered += value is not None and target.source is not None
        return None if isinstance(value, Deleted) else value

    def is_deleted(self, target: VariableTracker, name: str) -> bool:
        return self._attributes.get(target, {}).get(name) is DELETED

    def attributes(self, target: VariableTracker) -> dict[str, AttributeValue]:
        return self._attributes.get(target, {})

    def held_by(self, target: VariableTracker) -> list[VariableTracker]:
        """What a value holds: its parts, and what the trace stored in its attributes."""
        stored = self.attributes(target).values()
        return [*target.children(), *(value for value in stored if isinstance(value, VariableTracker))]

    def store_global(self, globals_: dict[str, Any], name: str, value: AttributeValue, step: int) -> None:
        """`step`: at which the graph breaks if this store, with those behind it, drops an object that a finalizer waits for."""
        stored = self._globals.get((id(globals_), name))
        if stored is None:
            self._replaced.setdefault((id(globals_), name), (globals_.get(name), step))
        elif isinstance(stored, VariableTracker):
            check_release((stored,), f"the global {name!r}")
        self._notify_observer(None)
        self._places.note("global", id(globals_), name)
        self._global_dicts[id(globals_)] = globals_
        self._globals[id(globals_), name] = value

    def check_replaced_globals(self, known: Callable[[Any], VariableTracker | None]) -> None:
        """Breaks the graph where a global that held an object with a finalizer has another in the end. `known` gives the tracked
        value of an object."""
        for (key, name), (held, step) in self._replaced.items():
            if self._globals[key, name] is not known(held):
                check_object_release(held, f"the global {name!r}", step)

    def global_value(self, globals_: dict[str, Any], name: str) -> AttributeValue | None:
        value = self._globals.get((id(globals_), name))
        self.answered += value is not None
        return value

    def stored_globals(self) -> Iterator[tuple[dict[str, Any], str, AttributeValue]]:
        for (key, name), value in self._globals.items():
            yield self._global_dicts[key], name, value

    def defer(self, call: DeferredCall, instead: DeferredCall | None = None) -> None:
        """Records a DeferredCall; where one stands that is not needed any more, if `instead` is given."""
        self._notify_observer(None)
        if instead is not None:
            self.calls[self.calls.index(instead)] = call
            return
        self._places.note("call", len(self.calls))
        self.calls.append(call)

    def changes_what_existed(self) -> bool:
        """Whether the trace has changed, or will call, something that existed before the frame ran."""
        changed = any(target.source is not None for target in self.mutated)
        return changed or bool(self.calls) or bool(self._globals)

    def may_release(self) -> bool:
        """Whether what existed before the frame ran may have lost a reference: its contents changed, or an attribute or global
        that held more than a number or text."""
        replaced = [self._global_dicts[key].get(name) for key, name in self._globals]
        for target in self.mutated:
            replaced += [held_before(target, name) for name in self.attributes(target)]
        return self._has_changed_contents or any(map(gc.is_tracked, replaced))

    def changes_what_modules_see(self) -> bool:
        """Whether code that runs now could see that the changes are not made yet. What was changed of the arguments of the frame
        alone is taken to be nobody else's."""
        roots = [target.source.root() for target in self.mutated if target.source is not None]
        return bool(self.calls or self._globals) or not all(isinstance(root, LocalSource) for root in roots)

    def descriptions(self) -> Iterator[DescribedEffect]:
        """Each effect that the output code replays on something that existed before the frame ran, for the log `side_effects`."""
        for index, draw in enumerate(self.draws):
            yield self._places.with_lines(f"draw: {_name(draw.function)}", "draw", index)
        for index, call in enumerate(self.calls):
            yield self._places.with_lines(f"call: {_name(call.function)}", "call", index)
        for target in self.mutated:
            if target.source is None:
                continue
            if (target,) in self._places:
                yield self._places.with_lines(f"change of {target.python_type().__name__} {target.source.name}", target)
            for name, value in self.attributes(target).items():
                verb = "delete" if value is DELETED else "store"
                yield self._places.with_lines(f"{verb} attribute {target.source.name}.{name}", target, name)
        for globals_, name, value in self.stored_globals():
            verb = "delete" if value is DELETED else "store"
            yield self._places.with_lines(f"{verb} global {name}", "global", id(globals_), name)

    def __bool__(self) -> bool:
        return bool(self.mutated or self._globals or self.calls)
