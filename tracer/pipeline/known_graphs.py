"""Graphs that need no second compile: a call that fills a registry of a module outdates its own entry, and the next trace gives
the same graph.

`registry.setdefault(type(x), handler)` in a library is such a call: the first trace finds no key, so its entry is guarded by
that, and its output code stores the key. The second trace finds it, and the operations are the same. It gives an entry of its
own, around the callable that the backend has made for the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch

from shapes import emission
from tracer import config
from tracer.graph.same_graph import layout_of, same_graph
from tracer.guards import arrays, memory, shapes, tensors
from tracer.guards.containers import DictContains, DictKeysMatch, DictLengthReaches, EmptyDicts, LengthMatch
from tracer.guards.identity import Distinct
from tracer.guards.state import GlobalStateMatch
from tracer.pipeline.trace_guards import guards_of
from tracer.runtime.guarded_code import GuardedCode
from tracer.runtime.upkeep import renaming_to_places
from tracer.sources.roots import LocalSource
from tracer.variables.containers.dicts import DictVariable

if TYPE_CHECKING:
    from types import FunctionType

    from tracer.guards.base import Guard
    from tracer.interpreter.trace import Trace
    from tracer.sources.base import Source

_OF_KEYS = (DictContains, DictKeysMatch, DictLengthReaches, LengthMatch)
_OF_TENSORS = {module.__name__ for module in (arrays, memory, shapes, tensors)}


def outdates_itself(trace: Trace) -> bool:
    """Whether the trace stores keys in a dict of a module or class, and is guarded by which keys that has."""
    written = {
        target.source
        for target in trace.effects.mutated
        if isinstance(target, DictVariable) and target.source is not None and not isinstance(target.source.root(), LocalSource)
    }
    return bool(written) and any(not written.isdisjoint(_dicts_of(guard)) for guard in trace.output.guards)


def _dicts_of(guard: Guard) -> tuple[Source, ...]:
    """The dicts of whose keys a guard tells."""
    if isinstance(guard, EmptyDicts):
        return guard.places()
    return (guard.source,) if isinstance(guard, _OF_KEYS) else ()


def callable_for(
    gm: torch.fx.GraphModule, trace: Trace, function: FunctionType, snapshot: Any, entries: Iterable[GuardedCode]
) -> Callable[..., Any] | None:
    """What the backend has made of the same graph for one of the entries, if all that this trace assumes of tensors, sizes and
    torch's state is what that entry assumes; else None."""
    compiled = [(entry, entry.graph) for entry in entries if entry.backends_callable is not None]
    known = [(entry, graph) for entry, graph in compiled if graph is not None and same_graph(graph, gm, inputs=True)]
    if not known:
        return None
    env = trace.output.world.env
    texts = env.produce_guards(prune=config.prune_guards)
    guards = guards_of(trace, function.__code__, snapshot, texts)
    inputs = {item.source for item in trace.output.inputs.values()}
    assumed = _of_tensors(guards, inputs)
    layout = layout_of(gm, renaming_to_places(emission.record(env, texts)))
    for entry, graph in known:
        if (
            _of_tensors(entry.manager.guards, inputs) == assumed
            and all(guard.snapshot.check() for guard in entry.manager.guards if type(guard) is GlobalStateMatch)
            and layout_of(graph, renaming_to_places(entry.shapes)) == layout
        ):
            found: Callable[..., Any] = entry.backends_callable
            return found
    return None


def _of_tensors(guards: Iterable[Guard], inputs: set[Any]) -> set[Guard]:
    """What guards say of tensors and sizes, and which inputs of the graph must be different objects."""
    found = {part for guard in guards for part in guard.parts() if type(part).__module__ in _OF_TENSORS}
    return found | {guard for guard in guards if type(guard) is Distinct and inputs.issuperset(guard.group)}
