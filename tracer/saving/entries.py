"""Converts a cache entry to data and back: its guards, its code and the objects that this uses, its graph, its shape record."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import io
import types
from typing import Any

import torch
from torch import fx

from tracer import _C, user_marks
from tracer.effects.torch_state import on_plain_tensors, restoring_state
from tracer.graph.graph_module import module_of
from tracer.graph.same_graph import KINDS, kinds_of_outputs
from tracer.guards.base import Guard
from tracer.guards.manager import CheckFunctionManager
from tracer.guards.reading import argument_slots
from tracer.runtime.guarded_code import GuardedCode, make_entry
from tracer.saving.fingerprints import Differs, Refused, name_with_place
from tracer.saving.pickling import ObjectPaths, Unpickler, dump, frame_values
from tracer.serving.regions import output_sizes
from tracer.serving.target import Target
from tracer.sources.base import FrameValues, Source

_WRAPPERS = {"restoring_state": restoring_state, "on_plain_tensors": on_plain_tensors}
_GRAPH = ("the graph",)


@dataclasses.dataclass
class NodeRef:
    """A reference to a node of the graph, in the arguments of another node."""

    index: int


@dataclasses.dataclass
class OwnData:
    """What a backend's callable writes of itself, in place of the graph. Its class has the methods
    `serialize_compile_artifacts(callable) -> bytes` and `deserialize_compile_artifacts(bytes) -> callable`."""

    module: str
    qualname: str
    data: bytes

    @classmethod
    def of(cls, compiled: Any) -> OwnData | None:
        """None for a callable that does not write itself."""
        owner = type(compiled)
        write = getattr(owner, "serialize_compile_artifacts", None)
        if write is None or not hasattr(owner, "deserialize_compile_artifacts"):
            return None
        return cls(owner.__module__, owner.__qualname__, write(compiled))

    def callable(self) -> Any:
        """The callable, read back. Raises what importing its class, or its class, raises."""
        owner = functools.reduce(getattr, self.qualname.split("."), importlib.import_module(self.module))
        return owner.deserialize_compile_artifacts(self.data)


@dataclasses.dataclass
class Saved:
    """What a file holds of one entry."""

    guards: tuple[Guard, ...]
    fetched: tuple[Source, ...]
    code: types.CodeType | None
    extras: dict[str, Any]
    wrappers: tuple[str, ...]
    originals: tuple[int, ...]  # indices of the constants that are the original code, which must not be traced
    needs_hook: bool
    graph_name: str | None
    nodes: tuple[tuple[Any, ...], ...] | None
    shapes: Any
    outputs: tuple[tuple[Any, ...], ...] | None
    output_kinds: list[str]
    pinned: bool
    direct: tuple[int, ...] | None  # the graph inputs of GuardedCode.direct
    own_data: OwnData | None  # in place of the nodes


# -- saving -------------------------------------------------------------------------------------------------------


def save_entry(entry: _C.Entry, target: Target) -> bytes:
    """The data of an entry. Raises Refused for an entry that would not work in another process."""
    guarded: GuardedCode = entry.guarded_code
    if guarded.broken:
        raise Refused(
            "the graph breaks: what is behind the break is traced anew in each process. To save what is before and behind it, "
            "make these functions of their own, and compile each"
        )
    compiled, _ = compiled_graph(entry)
    own_data = None if target.state.compiler_fn.runs_as_written else OwnData.of(compiled)
    if not target.state.compiler_fn.runs_as_written and own_data is None and guarded.graph is not None:
        raise Refused(
            f"graphs that the backend {target.state.compiler_fn.name!r} has compiled are not saved, only those of 'eager', and "
            "those whose callable writes itself (serialize_compile_artifacts)"
        )
    manager, function = guarded.manager, target.function
    if not manager.valid:
        raise Refused(f"{manager.died} has died")
    where = ObjectPaths(manager.guards, values_of(target), function.__code__)
    extras, wrappers = _extras(entry, guarded, own_data is not None)
    state = Saved(
        guards=manager.guards,
        fetched=manager.fetched,
        code=guarded.code,
        extras=extras,
        wrappers=wrappers,
        originals=_indices_of_original_code(guarded.code, function.__code__),
        needs_hook=entry.needs_hook,
        graph_name=guarded.graph_name,
        nodes=None if guarded.graph is None or own_data is not None else _node_records(guarded.graph),
        shapes=guarded.shapes,
        outputs=None if guarded.graph is None else tuple(output_sizes(guarded, {})),
        output_kinds=[] if guarded.graph is None else kinds_of_outputs(guarded.graph),
        pinned=guarded.pinned,
        direct=None if guarded.direct is None else guarded.direct[0],
        own_data=own_data,
    )
    return dump(state, where, function)


def values_of(target: Target) -> FrameValues:
    """The values that sources can read before any call: globals, closure, and the compiled object itself as an argument."""
    names = argument_slots(target.function.__code__)
    return frame_values(target.function, dict(zip(names, target.leading_args)))


def compiled_graph(entry: _C.Entry) -> tuple[Any, tuple[str, ...]]:
    """What the backend made of the entry's graph, and the names of the tracer's wrappers around it, the innermost first. (None,
    ()) without a graph."""
    guarded: GuardedCode = entry.guarded_code
    if guarded.code is None or guarded.graph_name is None:
        return None, ()
    compiled = _values_of_extras(entry, guarded.code)[guarded.graph_name]
    wrappers: list[str] = []
    while (wrapper := _wrapper_of(compiled)) is not None:
        wrappers.insert(0, wrapper)
        compiled = compiled.__closure__[compiled.__code__.co_freevars.index("compiled")].cell_contents
    return compiled, tuple(wrappers)


def _values_of_extras(entry: _C.Entry, code: types.CodeType) -> dict[str, Any]:
    names = code.co_freevars[len(code.co_freevars) - len(entry.extras) :]
    return {name: cell.cell_contents for name, cell in zip(names, entry.extras)}


def _extras(entry: _C.Entry, guarded: GuardedCode, writes_itself: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The free variables of the output code by name, with a marker for the compiled graph, and the graph's wrappers."""
    if guarded.code is None:
        return {}, ()
    values = _values_of_extras(entry, guarded.code)
    compiled, wrappers = compiled_graph(entry)
    if guarded.graph_name is not None:
        forward = getattr(type(guarded.graph), "forward", None)
        is_graph = getattr(compiled, "__self__", None) is guarded.graph and compiled.__func__ is forward
        if not is_graph and not writes_itself:
            raise Refused("the backend runs other code than the graph itself")
        values[guarded.graph_name] = _GRAPH
    return values, wrappers


def _wrapper_of(compiled: Any) -> str | None:
    code = getattr(compiled, "__code__", None)
    return next((name for name, made_by in _WRAPPERS.items() if code in made_by.__code__.co_consts), None)


def _indices_of_original_code(code: types.CodeType | None, original: types.CodeType) -> tuple[int, ...]:
    consts = () if code is None else code.co_consts
    return tuple([
        index
        for index, const in enumerate(consts)
        if isinstance(const, types.CodeType) and (const.co_qualname, const.co_code) == (original.co_qualname, original.co_code)
    ])  # fmt: skip


def _node_records(gm: fx.GraphModule) -> tuple[tuple[Any, ...], ...]:
    numbers: dict[fx.Node, NodeRef] = {}
    found = []
    for index, node in enumerate(gm.graph.nodes):
        if node.op in ("get_attr", "call_module"):
            raise Refused(f"the graph contains {node.target}, which is a value or another graph")
        if node.op == "call_function" and user_marks.is_allowed(node.target):
            raise Refused(f"{name_with_place(node.target)} is allowed in the graph, and changes of its code cannot be noticed")
        args, kwargs = fx.map_arg((node.args, node.kwargs), numbers.__getitem__)
        found.append(
            (node.op, node.name, node.target, _plain_containers(args), _plain_containers(kwargs), node.meta.get("stack_trace"))
        )
        numbers[node] = NodeRef(index)
    return tuple(found)


def _plain_containers(value: Any) -> Any:
    """FX's immutable lists and dicts as ordinary ones."""
    if isinstance(value, tuple):
        return tuple(map(_plain_containers, value)) if type(value) is tuple else value
    if isinstance(value, list):
        return list(map(_plain_containers, value))
    return {key: _plain_containers(item) for key, item in value.items()} if isinstance(value, dict) else value


# -- loading ------------------------------------------------------------------------------------------------------


def load_entry(data: bytes, target: Target, *, compiled: Any = None) -> _C.Entry:
    """The entry, made for this process. `compiled`: in place of a callable that wrote itself. Raises Differs if something that it
    relies on has changed."""
    function, state = target.function, target.state
    values = values_of(target)
    found: Saved = Unpickler(io.BytesIO(data), function, values).load()
    manager = CheckFunctionManager(found.guards, function.__code__, function.__globals__, fetched=found.fetched)
    gm = None if found.nodes is None or found.graph_name is None else _graph(found.nodes, found.graph_name)
    if gm is not None:
        gm.meta[KINDS] = found.output_kinds
    guarded = GuardedCode(found.code, manager, gm, found.graph_name, found.shapes, pinned=found.pinned, outputs=found.outputs)
    extras = dict(found.extras)
    if found.graph_name is not None and (gm is not None or found.own_data is not None):
        if found.own_data is None:
            compiled = state.compiler_fn(gm, [])
        elif compiled is None:
            compiled = found.own_data.callable()
        for name in found.wrappers:
            compiled = _WRAPPERS[name](compiled)
        extras[found.graph_name] = compiled
    for index in found.originals:
        _C.never_trace(found.code.co_consts[index])  # type: ignore[union-attr]  # an entry with originals has code
    if found.direct is not None and found.code is not None:
        guarded.direct = found.direct, found.code.co_consts[found.originals[0]]
    return make_entry(state, function, guarded, extras, found.needs_hook, fetches=bool(found.fetched))


def check_readable(data: bytes, entry: _C.Entry, target: Target) -> None:
    """Reads the data of an entry back. Raises Refused if that fails here already, or gives other guards or another graph."""
    try:
        found: GuardedCode = load_entry(data, target, compiled=compiled_graph(entry)[0]).guarded_code
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


def _graph(nodes: tuple[tuple[Any, ...], ...], name: str) -> fx.GraphModule:
    graph = fx.Graph()
    made: list[fx.Node] = []
    for op, node_name, target, args, kwargs, stack in nodes:
        args, kwargs = fx.node.map_aggregate((args, kwargs), lambda each: made[each.index] if isinstance(each, NodeRef) else each)
        node = graph.create_node(op, target, args, kwargs, node_name)
        if stack is not None:
            node.meta["stack_trace"] = stack
        made.append(node)
    gm = module_of(graph, torch.nn.Module())
    gm.compile_subgraph_name = name
    gm.meta["name"] = name
    return gm
