"""Replays the effects of a trace in the output code: once, after the graph, in the order in which they began."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer.effects.log import DELETED, Effects
from tracer.variables.base import VariableTracker
from tracer.variables.deques import DequeVariable
from tracer.variables.functions import CellVariable
from tracer.variables.lazy import Unwrapped
from tracer.variables.mappings import DictVariable
from tracer.variables.sequences import ListVariable
from tracer.variables.sets import SetVariable
from tracer.variables.streams import EnumerateStream, StreamVariable


def replay(cg: Any, effects: Effects) -> None:
    """Emits the effects on everything that existed before the frame ran. New objects are made as they are at the end."""
    for call in effects.calls:
        values = [lambda value=value: cg.load_const(value) for value in call.values]
        cg.call_object(call.function, *values, *[lambda value=value: cg.load(value) for value in call.arguments])
        cg.asm.pop()
    targets = [target for target in effects.mutated if target.source is not None]
    for target in targets:
        for value in _payload(effects, target):
            cg.keep(value)
    for _, _, stored in effects.stored_globals():
        if isinstance(stored, VariableTracker):
            cg.keep(stored)
    for target in targets:
        cg.keep(target)
    for target in sorted(targets, key=lambda target: not isinstance(target, EnumerateStream)):  # these ask the others
        if isinstance(target, (StreamVariable, EnumerateStream)):  # before what they iterate over changes
            target.replay(cg)
    for target in targets:
        if isinstance(target, (ListVariable, DictVariable, SetVariable, DequeVariable, CellVariable)):
            target.replay(cg)
        if effects.attributes(target):
            cg.store_attributes(target)
    for globals_, name, stored in effects.stored_globals():
        if stored is DELETED:  # perhaps the trace itself had stored it, and it is not there
            cg.call_object(dict.pop, *_key(cg, globals_, name), lambda: cg.load_const(None))
            cg.asm.pop()
        else:
            cg.load(stored)
            for load in _key(cg, globals_, name):
                load()
            cg.asm.emit("STORE_SUBSCR")


def _key(cg: Any, globals_: dict[str, Any], name: str) -> tuple[Callable[[], None], Callable[[], None]]:
    return lambda: cg.load_globals(globals_), lambda: cg.load_const(name)


def _payload(effects: Effects, target: VariableTracker) -> list[VariableTracker | Unwrapped]:
    """What the replay of `target` loads: read before anything changes."""
    stored = effects.attributes(target).values()
    parts = target.replayed() if isinstance(target, (ListVariable, DictVariable, DequeVariable)) else target.children()
    return [*parts, *(value for value in stored if isinstance(value, VariableTracker))]
