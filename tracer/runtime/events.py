"""Tells those who listen (`metrics.add_callback`) what happens in a region: data about calls, and none of their values."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

from tracer import _C, metrics
from tracer.bytecode.slots import argument_slots
from tracer.errors import UserError
from tracer.metrics import Event, Input
from tracer.runtime import stances
from tracer.runtime.argument_paths import argument_sources
from tracer.runtime.missed_calls import MissedCall
from tracer.sources.base import Source
from tracer.sources.containers import ItemSource
from tracer.sources.roots import LocalSource

if TYPE_CHECKING:
    from tracer.runtime.region_state import RegionState

MOST_LEAVES = 64  # tensors and ints of one call that are noted
DEEPEST = 4  # nested containers
_PACKED = 0x04 | 0x08  # flags of code that takes *args, **kwargs
Leaf = tuple[tuple[Any, ...], Any]  # (path from an argument slot, or a source, and a tensor or an int)


def leaves(code: types.CodeType, args: tuple[Any, ...]) -> list[Leaf]:
    """The tensors among the argument slots of a call, also inside containers, and the ints that are arguments themselves. To be
    asked without torch functions."""
    packed = _packed(code)
    found: list[Leaf] = []
    for name, value in zip(argument_slots(code), args):
        _add_leaves((name,), value, found, 2 if name in packed else 1)
    return found


def _packed(code: types.CodeType) -> tuple[str, ...]:
    """The names of *args and **kwargs."""
    return argument_slots(code)[code.co_argcount + code.co_kwonlyargcount :] if code.co_flags & _PACKED else ()


def _add_leaves(path: tuple[Any, ...], value: Any, found: list[Leaf], depth_of_ints: int) -> None:
    cls = type(value)
    if len(found) >= MOST_LEAVES:
        return
    if cls is torch.Tensor:
        if value.layout is torch.strided and not value.is_nested:
            found.append((path, value))
    elif cls is int:
        if len(path) <= depth_of_ints:
            found.append((path, value))
    elif len(path) > DEEPEST:
        return
    elif cls is list or cls is tuple:
        for index, item in enumerate(value[:MOST_LEAVES]):
            _add_leaves((*path, index), item, found, depth_of_ints)
    elif cls is dict and len(value) <= MOST_LEAVES:
        for key, item in list(value.items()):
            if type(key) is str or type(key) is int:
                _add_leaves((*path, key), item, found, depth_of_ints)


def source_at(path: tuple[Any, ...]) -> Source:
    """`("batch", "ids")` -> `L['batch']['ids']`"""
    source: Source = path[0] if isinstance(path[0], Source) else LocalSource(path[0])
    for key in path[1:]:
        source = ItemSource(source, key)
    return source


def inputs_of(function: types.FunctionType, args: tuple[Any, ...]) -> tuple[Input, ...]:
    """What events say of the arguments of a call, named as guards name them."""
    code = function.__code__
    packed = _packed(code)
    found: list[Leaf] = []
    with torch._C.DisableTorchFunction():
        for source, value in argument_sources(function, dict(zip(argument_slots(code), args, strict=True))):
            as_whole = isinstance(source, LocalSource) and source.local_name in packed
            _add_leaves((source,), value, found, 2 if as_whole else 1)
        return tuple(_inputs(found))


def _inputs(found: list[Leaf]) -> Iterator[Input]:
    for path, value in found:
        name = source_at(path).name
        if type(value) is int:
            yield Input(name, "int", None, value)
        else:
            yield Input(name, str(value.dtype), tuple(value.shape))


def tell_miss(region: RegionState, function: types.FunctionType, args: tuple[Any, ...]) -> None:
    """Why it missed is found when a callback asks."""
    missed = MissedCall(region, function, args)
    stance, handler = stances.current(), region.miss_handler
    policy = stance if stance != "default" else "trace" if handler is None else handler.policy
    tell(
        region,
        "miss",
        function,
        lambda: missed.summary()[0],
        reason=missed.reason,
        policy=policy,
        args=args,
        missed=missed,
    )


def tell(
    region: RegionState,
    kind: str,
    function: types.FunctionType,
    detail: Any,
    *,
    seconds: float = 0.0,
    reason: Any = "",
    policy: str = "",
    entry: _C.Entry | None = None,
    args: tuple[Any, ...] | None = None,
    **about: Any,
) -> None:
    """Calls the callbacks. `args`: the argument slots of the call in question. `about`: objects for callbacks of the tracer."""
    code = function.__code__
    about.update(state=region, code=code)
    if kind == "compile" and args is not None:
        about["axes"] = _axes(region, function, args)
    if entry is not None:
        about["entry"] = entry
    metrics.notify(
        Event(
            kind,
            region.name,
            function.__qualname__,
            detail,
            seconds,
            about,
            reason=reason,
            policy=policy,
            entry=_graph_name(entry),
            inputs=() if args is None else inputs_of(function, args),
        )
    )


def _axes(region: RegionState, function: types.FunctionType, args: tuple[Any, ...]) -> dict[str, str]:
    """Name that guards have for a size -> what was declared of it: `L['x'].size()[0]` -> `B`."""
    try:
        declared = region.declared_shapes(function, args)
    except UserError:  # the call is outside of what was declared meanwhile
        return {}
    return {} if declared is None else declared.domain.named_places()


def tell_of_entry(region: RegionState, kind: str, entry: _C.Entry, detail: str, *, reason: str = "") -> None:
    """As `tell`, of an entry whose function is not at hand."""
    about = {"state": region, "code": entry.guarded_code.manager.code, "entry": entry}
    metrics.notify(Event(kind, region.name, entry.qualname, detail, 0.0, about, reason=reason, entry=_graph_name(entry)))


def tell_of_region(region: RegionState, kind: str, detail: Any, *, reason: str = "", policy: str = "", **about: Any) -> None:
    """As `tell`, of all that a region has."""
    if metrics.listeners:
        about["state"] = region
        metrics.notify(Event(kind, region.name, region.name, detail, 0.0, about, reason=reason, policy=policy))


def _graph_name(entry: _C.Entry | None) -> str:
    return "" if entry is None else entry.guarded_code.graph_name or ""
