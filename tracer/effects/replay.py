"""Replays the effects of a trace in the output code: once, after the graph, in the order in which they began."""
from __future__ import annotations

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
        if stored is not DELETED:
            cg.load(stored)
        cg.load_globals(globals_)
        cg.asm.load_const(name)
        cg.asm.emit("DELETE_SUBSCR" if stored is DELETED else "STORE_SUBSCR")


def _payload(effects: Effects, target: VariableTracker) -> list[VariableTracker | Unwrapped]:
    """What the replay of `target` loads: read before anything changes."""
    stored = effects.attributes(target).values()
    parts = target.replayed() if isinstance(target, (ListVariable, DictVariable, DequeVariable)) else target.children()
    return [*parts, *(value for value in stored if isinstance(value, VariableTracker))]
