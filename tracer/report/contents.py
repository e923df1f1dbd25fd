"""Converts events to records: dicts of strings and numbers, made on the thread of the event. Runs no code of the program."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from tracer.guards import Guard, GuardFailure, ShapeLine, TensorMatch, argument_slots
from tracer.locations import UserLocation
from tracer.metrics import Event
from tracer.runtime import log_texts
from tracer.sources import ItemSource, LocalSource, Source
from tracer.sources.tensors import TensorSizeSource

if TYPE_CHECKING:
    from tracer.runtime.guarded_code import GuardedCode
    from tracer.runtime.region_state import RegionState

MOST_GUARDS = 4000  # of one entry; further ones are only counted
MOST_LEAVES = 64  # tensors and ints of one call whose sizes are noted
LONGEST = 20_000  # characters of a text from the program, such as an error message
DEEPEST = 4  # nested containers

MAKING = ("compile", "merge", "load")  # events that make an entry
Path = tuple[Any, ...]
Sizes = tuple[tuple[Path, Any], ...]  # (path of a tensor, its shape), or (path of an int, the int)


def is_root(state: RegionState, code: types.CodeType) -> bool:
    """Whether code is that of a decorated function, and not of a function that this calls or of a resume function."""
    return code in state.roots and code not in state.resume_codes


def frame_of(code: types.CodeType | None) -> dict[str, Any]:
    if code is None:
        return {"name": "?", "file": "", "line": 0}
    return {"name": code.co_qualname, "file": code.co_filename, "line": code.co_firstlineno}


def place(where: UserLocation | None) -> dict[str, Any] | None:
    if where is None:
        return None
    return {"file": where.filename, "line": where.lineno, "function": where.function, "code": where.source_line()}


# -- calls --------------------------------------------------------------------------------------------------------


def sizes_of(names: Iterable[str], args: Iterable[Any]) -> Sizes:
    """The shapes of the tensors, and the ints, in the named argument slots of a call, also inside containers."""
    found: list[tuple[Path, Any]] = []
    with torch._C.DisableTorchFunction():
        for name, value in zip(names, args):
            _leaves((name,), value, found)
    return tuple(found)


def _leaves(path: Path, value: Any, found: list[tuple[Path, Any]]) -> None:
    cls = type(value)
    if cls is torch.Tensor:
        if value.layout is torch.strided and len(found) < MOST_LEAVES:
            found.append((path, tuple(value.shape)))
    elif cls is int:
        if len(found) < MOST_LEAVES:
            found.append((path, value))
    elif len(path) > DEEPEST:
        return
    elif cls is list or cls is tuple:
        for index, item in enumerate(value[:MOST_LEAVES]):
            _leaves((*path, index), item, found)
    elif cls is dict and len(value) <= MOST_LEAVES:
        for key, item in list(value.items()):
            if type(key) is str or type(key) is int:
                _leaves((*path, key), item, found)


def sizes_by_name(sizes: Sizes) -> dict[str, int]:
    """name that guards have for a size or int, as `L['x'].size()[0]` -> its value."""
    named: dict[str, int] = {}
    for path, value in sizes:
        source: Source = LocalSource(path[0])
        for key in path[1:]:
            source = ItemSource(source, key)
        if type(value) is int:
            named[source.name] = value
        else:
            named.update((TensorSizeSource(source, dim).name, int(size)) for dim, size in enumerate(value))
    return named


# -- events -------------------------------------------------------------------------------------------------------


def record_of(event: Event) -> dict[str, Any]:
    """The record of an event. The recorder adds the numbers of the region and the entry."""
    code = event.about.get("code")
    record: dict[str, Any] = {"kind": event.kind, "region": event.region, "frame": frame_of(code)}
    if event.detail:
        record["detail"] = event.detail[:LONGEST]
    args = event.about.get("args")
    if args is not None and code is not None:
        record["sizes"] = sizes_by_name(sizes_of(argument_slots(code), args))
    error = event.about.get("error")
    if error is not None:
        record["reason"] = _reason(error)
    if event.kind in MAKING:
        record |= {"seconds": event.seconds, **_entry(event.about["entry"].guarded_code)}
        record["root"] = is_root(event.about["state"], event.about["code"])
    elif event.kind == "recompile":
        record["failures"] = [_failure(failure) for failure in event.about["failures"]]
    return record


def _reason(error: Any) -> dict[str, Any]:
    """An `Unsupported`, in parts."""
    return {
        "id": error.id,
        "message": error.message[:LONGEST],
        "explanation": error.reason.explanation,
        "hint": error.hint or "",
        "stack": [place(where) for where in error.user_stack],
    }


def _failure(failure: GuardFailure) -> dict[str, Any]:
    named = {"text": failure.message, "expected": failure.expected, "seen": failure.seen}
    return {**{name: text[:LONGEST] for name, text in named.items()}, "where": place(failure.where)}


def _entry(guarded: GuardedCode) -> dict[str, Any]:
    manager = guarded.manager
    described = manager.described()
    record: dict[str, Any] = {
        "left": guarded.code is None,
        "broken": guarded.broken,
        "guards": [_guard(text, guard) for text, guard in described[:MOST_GUARDS]],
        "guards_in_all": len(described),
        "region_of_shapes": _region(manager.guards),
    }
    gm = guarded.graph
    if gm is not None:
        ops = sum(node.op.startswith("call_") for node in gm.graph.nodes)
        code = log_texts.graph_code(gm.graph, guarded.graph_name or "")
        backend = gm.meta.get("backend_seconds", 0.0)
        record["graph"] = {"name": guarded.graph_name, "operations": ops, "code": code, "backend_seconds": backend}
    return record


def _guard(text: str, guard: Guard) -> dict[str, Any]:
    record: dict[str, Any] = {"text": text[:LONGEST], "kind": guard.kind}
    if guard.where is not None:
        record["where"] = place(guard.where)
    if isinstance(guard, ShapeLine) and guard.recorded is not None and guard.recorded != text:
        record["recorded"] = guard.recorded
    return record


def _region(guards: Iterable[Guard]) -> dict[str, Any]:
    """The conditions of the guards on sizes: expressions with `{i}` for the labels, ranks of tensors, and static sizes."""
    lines: list[dict[str, Any]] = []
    ranks: dict[str, int] = {}
    fixed: dict[str, int] = {}
    for guard in guards:
        if isinstance(guard, TensorMatch):
            if guard.spec.sizes is not None and not _is_no_argument(guard.source):
                ranks[guard.source.name] = len(guard.spec.sizes)
                fixed.update(_fixed(guard.source, guard.spec.sizes))
        else:
            for part in guard.parts():
                if isinstance(part, ShapeLine):
                    lines.append({"template": part.template, "labels": [label.name for label in part.labels]})
    return {"lines": lines, "ranks": ranks, "fixed": fixed}


def _fixed(source: Source, sizes: Iterable[int | None]) -> Iterator[tuple[str, int]]:
    for dim, size in enumerate(sizes):
        if size is not None:
            yield TensorSizeSource(source, dim).name, size


def _is_no_argument(source: Source) -> bool:
    """Whether a tensor is neither an argument nor in a container that is one."""
    while isinstance(source, ItemSource) and source.base is not None:
        source = source.base
    return not isinstance(source, LocalSource)
