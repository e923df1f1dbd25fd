"""Converts a cache entry to data and back: its guards, its code and the objects that this uses, its graph, its shape record."""

from __future__ import annotations

import dataclasses
import io
import types
from typing import Any

from torch import fx

from tracer import _C
from tracer.bytecode.slots import argument_slots
from tracer.graph.same_graph import KINDS, kinds_of_outputs
from tracer.guards.base import Guard
from tracer.guards.manager import CheckFunctionManager
from tracer.runtime import stances
from tracer.runtime.guarded_code import GuardedCode, make_entry
from tracer.saving.closures import is_compiled_graph, is_own_closure, writes_itself
from tracer.saving.fingerprints import Differs, Refused
from tracer.saving.pickling import CheckingUnpickler, ObjectPaths, Unpickler, dump, frame_values
from tracer.serving.regions import output_sizes
from tracer.serving.target import Target
from tracer.sources.base import FrameValues, Source


@dataclasses.dataclass
class Saved:
    """What a file holds of one entry."""

    guards: tuple[Guard, ...]
    fetched: tuple[Source, ...]
    code: types.CodeType | None
    extras: dict[str, Any]
    originals: tuple[int, ...]  # indices of the constants that are the original code, which must not be traced
    needs_hook: bool
    graph_name: str | None
    graph: fx.GraphModule | None
    shapes: Any
    outputs: tuple[tuple[Any, ...], ...] | None
    pinned: bool
    broken: bool
    reason: str
    direct: tuple[int, ...] | None  # the graph inputs of GuardedCode.direct


# -- saving -------------------------------------------------------------------------------------------------------


def save_entry(entry: _C.Entry, target: Target) -> bytes:
    """The data of an entry. Raises Refused for an entry that would not work in another process."""
    guarded: GuardedCode = entry.guarded_code
    in_place_of_graph = not target.state.backend.is_built_in and writes_itself(compiled_graph(entry))
    if guarded.graph is not None and not in_place_of_graph and not target.state.backend.is_built_in:
        raise Refused(
            f"what the backend {target.state.backend.name!r} makes of a graph is not known, only what the tracer's own make, "
            "and what writes itself (serialize_compile_artifacts)"
        )
    manager, function = guarded.manager, target.function
    if not manager.valid:
        raise Refused(f"{manager.died} has died")
    where = ObjectPaths(manager.guards, values_of(target), function.__code__)
    if guarded.graph is not None:
        guarded.graph.meta[KINDS] = kinds_of_outputs(guarded.graph)
    state = Saved(
        guards=manager.guards,
        fetched=manager.fetched,
        code=guarded.code,
        extras=_extras(entry),
        originals=_indices_of_original_code(guarded.code, function.__code__),
        needs_hook=entry.needs_hook,
        graph_name=guarded.graph_name,
        graph=None if in_place_of_graph else guarded.graph,
        shapes=guarded.shapes,
        outputs=None if guarded.graph is None else tuple(output_sizes(guarded, {})),
        pinned=guarded.pinned,
        broken=guarded.broken,
        reason=guarded.reason,
        direct=None if guarded.direct is None else guarded.direct[0],
    )
    return dump(state, where, function, target.state)


def values_of(target: Target) -> FrameValues:
    """The values that sources can read before any call: globals, closure, and the compiled object itself as an argument."""
    names = argument_slots(target.function.__code__)
    return frame_values(target.function, dict(zip(names, target.leading_args)))


def compiled_graph(entry: _C.Entry) -> Any:
    """What the backend made of the entry's graph, without the tracer's functions around it; None without a graph."""
    guarded: GuardedCode = entry.guarded_code
    compiled = None if guarded.graph_name is None else _extras(entry).get(guarded.graph_name)
    while type(compiled) is types.FunctionType and is_own_closure(compiled) and not is_compiled_graph(compiled):
        cells = dict(zip(compiled.__code__.co_freevars, compiled.__closure__ or ()))
        if "compiled" not in cells:
            break
        compiled = cells["compiled"].cell_contents
    return compiled


def resume_functions(entry: _C.Entry) -> dict[str, _C.Dispatcher]:
    """The functions that run what is behind the break of an entry, by the names that its code has for them."""
    return {name: value for name, value in _extras(entry).items() if type(value) is _C.Dispatcher}


def _extras(entry: _C.Entry) -> dict[str, Any]:
    """The free variables of the output code by name, the compiled graph among them."""
    if entry.code is None:
        return {}
    names = entry.code.co_freevars[len(entry.code.co_freevars) - len(entry.extras) :]
    return {name: cell.cell_contents for name, cell in zip(names, entry.extras)}


def _indices_of_original_code(code: types.CodeType | None, original: types.CodeType) -> tuple[int, ...]:
    consts = () if code is None else code.co_consts
    return tuple([
        index
        for index, const in enumerate(consts)
        if isinstance(const, types.CodeType) and (const.co_qualname, const.co_code) == (original.co_qualname, original.co_code)
    ])  # fmt: skip


# -- loading ------------------------------------------------------------------------------------------------------


def load_entry(data: bytes, target: Target, unpickler: type[Unpickler] = Unpickler) -> _C.Entry:
    """The entry, made for this process. Raises Differs if something that it relies on has changed."""
    function, state = target.function, target.state
    values = values_of(target)
    found: Saved = unpickler(io.BytesIO(data), function, values, state).load()
    manager = CheckFunctionManager(found.guards, function.__code__, function.__globals__, fetched=found.fetched)
    guarded = GuardedCode(
        found.code,
        manager,
        found.graph,
        found.graph_name,
        found.shapes,
        broken=found.broken,
        reason=found.reason,
        pinned=found.pinned,
        outputs=found.outputs,
        forced_by=stances.forced(),
    )
    for index in found.originals:
        _C.never_trace(found.code.co_consts[index])  # type: ignore[union-attr]  # an entry with originals has code
    if found.direct is not None and found.code is not None:
        guarded.direct = found.direct, found.code.co_consts[found.originals[0]]
    return make_entry(state, function, guarded, found.extras, found.needs_hook, fetches=bool(found.fetched))


def check_readable(data: bytes, entry: _C.Entry, target: Target) -> None:
    """Reads the data of an entry back. Raises Refused if that fails here already, or gives other guards or another graph."""
    try:
        found: GuardedCode = load_entry(data, target, CheckingUnpickler).guarded_code
    except Differs as error:
        raise Refused(f"it cannot be loaded: {error}") from None
    except Exception as error:
        raise Refused(f"what was written cannot be read back ({type(error).__name__}: {error})") from error
    wanted: GuardedCode = entry.guarded_code
    lines, expected = found.guards_text.splitlines(), wanted.guards_text.splitlines()
    differing = next((f"{now}, not {was}" for was, now in zip(expected, lines) if was != now), None)
    if differing is not None or len(lines) != len(expected):
        raise Refused(f"its guards are not the same after loading: {differing or f'{len(lines)} lines of {len(expected)}'}")
    if found.graph is not None and _graph_text(found) != _graph_text(wanted):
        raise Refused("its graph is not the same after loading")


def _graph_text(guarded: GuardedCode) -> str | None:
    return None if guarded.graph is None else str(guarded.graph.code)
