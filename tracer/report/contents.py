"""Converts events to records: dicts of strings and numbers, made on the thread of the event. Runs no code of the program."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from shapes.domain import point_text
from tracer.guards.base import Guard
from tracer.guards.manager import GuardFailure
from tracer.guards.shapes import ShapeLine
from tracer.guards.tensors import TensorMatch
from tracer.locations import UserLocation
from tracer.metrics import MAKING, Event, Input
from tracer.runtime import log_texts
from tracer.runtime.events import leaves, source_at
from tracer.serving.variants import known_variants
from tracer.sources.base import Source
from tracer.sources.containers import ItemSource
from tracer.sources.roots import ArgumentSource, LocalSource
from tracer.sources.tensors import TensorSizeSource

if TYPE_CHECKING:
    from tracer.runtime.guarded_code import GuardedCode
    from tracer.runtime.missed_calls import MissedCall
    from tracer.runtime.region_state import RegionState
    from tracer.serving.coverage_result import Coverage

MOST_GUARDS = 4000  # of one entry; further ones are only counted
LONGEST = 20_000  # characters of a text from the program, such as an error message

Path = tuple[Any, ...]
Sizes = tuple[Input | tuple[Path, Any], ...]  # inputs, or (path of a tensor, its shape), or (path of an int, the int)


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


def parameters_of(guards: Iterable[Guard]) -> dict[Path, Source]:
    """Where an argument came in *args or **kwargs -> its source by the parameter that it is for, of those that guards read."""
    found: dict[Path, Source] = {}
    for root in {source.root() for guard in guards for source in guard.sources()}:
        if isinstance(root, ArgumentSource):
            found[root.args, root.index] = found[root.kwargs, root.argument] = root
    return found


def sizes_of(code: types.CodeType, args: tuple[Any, ...], parameters: Mapping[Path, Source]) -> Sizes:
    """The shapes of the tensors, and the ints, in the argument slots of a call; see `events.leaves`. `parameters`: see
    `parameters_of`."""
    with torch._C.DisableTorchFunction():
        found = leaves(code, args)
        if parameters:
            found = [((parameters[path[:2]], *path[2:]) if path[:2] in parameters else path, value) for path, value in found]
        return tuple([(path, value if type(value) is int else tuple(value.shape)) for path, value in found])


def sizes_by_name(sizes: Iterable[Input | tuple[Path, Any]]) -> dict[str, int]:
    """name that guards have for a size or int, as `L['x'].size()[0]` -> its value."""
    named: dict[str, int] = {}
    for each in sizes:
        if isinstance(each, Input):
            name, value = each.name, each.shape if each.value is None else each.value
        else:
            name, value = source_at(each[0]).name, each[1]
        if isinstance(value, int):
            named[name] = value
        else:
            named.update((f"{name}.size()[{dim}]", int(size)) for dim, size in enumerate(value or ()))
    return named


# -- events -------------------------------------------------------------------------------------------------------


def record_of(event: Event, number: Callable[[Any], int]) -> dict[str, Any]:
    """The record of an event. `number`: of the manager of an entry. The recorder adds the numbers of the region and the entry."""
    code = event.about.get("code")
    record: dict[str, Any] = {"kind": event.kind, "region": event.region, "frame": frame_of(code)}
    if code is not None:
        record["root"] = is_root(event.about["state"], code)
    if event.detail:
        record["detail"] = event.detail[:LONGEST]
    for name in ("reason", "policy"):
        if getattr(event, name):
            record[name] = getattr(event, name)
    if event.inputs:
        record["sizes"] = sizes_by_name(event.inputs)
        record["dtypes"] = {each.name: each.dtype for each in event.inputs}
    error = event.about.get("error")
    if error is not None:
        record["reason"] = _reason(error)
    if event.kind in MAKING:
        record |= {"seconds": event.seconds, **_entry(event.about["entry"].guarded_code)}
        record["axes"] = dict(event.about.get("axes", {}))
    elif event.kind == "certificate":
        record["variants"] = [_variant(each, number) for each in known_variants(event.about["coverage"])]
    elif event.kind == "recompile":
        record["failures"] = [_failure(failure) for failure in event.about["failures"]]
    return record


def failures_of(missed: MissedCall) -> list[dict[str, Any]]:
    """The guard that fails in each entry, for a call that missed and is not traced: of one that is, the recompile tells them."""
    return [_failure(failure.without_data()) for failure in missed.failures()]


def _variant(found: Coverage, number: Callable[[Any], int]) -> dict[str, Any]:
    """What is known of a variant of the calls."""
    regions = [
        {"text": each.region.text(found.domain), "kind": each.kind, "entry": number(each.entry.guarded_code.manager)}
        for each in found.covering
    ]
    return {
        "name": found.name,
        "status": found.status,
        "domain": str(found.domain),
        "reason": found.reason[:LONGEST],
        "witness": "" if found.witness is None else point_text(found.witness),
        "modes": list(found.modes),
        "seconds": found.seconds,
        "regions": regions,
        "axes": found.domain.named_places(),
    }


def _reason(error: Any) -> dict[str, Any]:
    """An `Unsupported`, in parts."""
    return {
        "id": error.id,
        "message": error.message[:LONGEST],
        "explanation": error.reason.explanation,
        "hint": f"{error.assumption}. {error.hint}" if error.assumption else error.hint or "",
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
    return not isinstance(source, (LocalSource, ArgumentSource))
