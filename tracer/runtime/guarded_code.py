"""What a cache entry remembers on the Python side, and the limit on how many a frame may have."""

from __future__ import annotations

import dataclasses
import functools
import types
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from tracer import _C, guards, metrics

if TYPE_CHECKING:
    from torch import fx

    from tracer.guards import CheckFunctionManager
    from tracer.runtime.region_state import RegionState


@dataclasses.dataclass
class GuardedCode:
    """One result of tracing a frame: the code to run while `check_fn` holds. `code` is None where the frame is to be
    left to CPython under these guards."""

    code: types.CodeType | None
    manager: CheckFunctionManager
    graph: fx.GraphModule | None = None
    graph_name: str | None = None
    shapes: Any = None  # shapes.regions.ShapeRecord: what its guards say of shapes, and where the symbols are found
    broken: bool = False  # the graph ends in a break, and there is more behind it
    reason: str = ""  # for the break
    pinned: bool = False  # not to be evicted for want of room
    direct: tuple[tuple[int, ...], types.CodeType] | None = None  # inputs and original of Entry(direct=...)
    outputs: Any = None  # the sizes of each tensor that the graph gives, where its nodes do not tell
    numbers: Any = None  # what upkeep has read off its guards

    @property
    def check_fn(self) -> Any:
        return self.manager.check_fn

    @property
    def guards_text(self) -> str:
        """`check_fn` as a person reads it."""
        return str(self.manager.source_text)


def entries_of(region: _C.Region, code: types.CodeType, globals_: dict[str, Any]) -> list[_C.Entry]:
    """The live entries of a function's code."""
    return [entry for entry in region.entries(code) if entry.valid and entry.globals is globals_]


def serving(entries: list[_C.Entry], function: types.FunctionType, args: tuple[Any, ...]) -> _C.Entry | None:
    """The first entry whose guards hold for these argument slots."""
    positional = (*args, function.__closure__) if function.__code__.co_freevars else args
    for entry in entries:
        guarded = entry.guarded_code
        try:
            if guarded.manager.holds(guarded.check_fn(*positional)):
                return entry
        except Exception:  # what it reads is gone, as a cell that was emptied
            continue
    return None


def failures_of(entries: list[_C.Entry], function: types.FunctionType, args: tuple[Any, ...]) -> list[Any]:
    """The first guard that fails in each entry."""
    failures = [entry.guarded_code.manager.explain(args, function.__closure__) for entry in entries]
    return [failure for failure in failures if failure is not None]


def decide(entries: tuple[_C.Entry, ...]) -> _C.Decision:
    """Tells several entries of one function's code apart, as far as their guards do; what a region asks for."""
    managers = [entry.guarded_code.manager for entry in entries]
    for manager in managers[:-1]:
        manager.share(managers[-1])
    demands = [dict.fromkeys(manager.guards) for manager in managers]
    common = set(demands[-1])  # of a large model nearly all; they tell nothing apart
    for found in demands[:-1]:  # other threads run between two of these
        common.intersection_update(found)
    tests = [guards.tests_of([guard for guard in found if guard not in common]) for found in demands]
    return guards.decide(entries, tests, managers[0].code, managers[0].globals)


def watched(state: RegionState, guarded: GuardedCode) -> Any:
    """The check_fn for an entry of a RegionState, which tells whoever wants to see the calls that hit."""
    return guarded.check_fn if metrics.watch is None else metrics.watch(state, guarded)


def direct_call(guarded: GuardedCode, extras: tuple[types.CellType, ...]) -> Any:
    """What an entry with these cells may do in place of its code."""
    code = guarded.code
    if guarded.direct is None or code is None or guarded.graph_name is None:
        return None
    graph = extras[code.co_freevars.index(guarded.graph_name) - len(code.co_freevars)]
    return graph.cell_contents, *guarded.direct


def make_entry(
    state: RegionState,
    function: types.FunctionType,
    guarded: GuardedCode,
    extras: dict[str, Any],
    needs_hook: bool,
    fetches: bool = False,
) -> _C.Entry:
    """`state`: the RegionState that it is for."""
    cells = tuple(types.CellType(value) for value in extras.values())
    entry = _C.Entry(
        watched(state, guarded),
        guarded.code,
        function.__globals__,
        cells,
        function.__closure__,
        needs_hook=needs_hook,
        name=function.__name__,
        qualname=function.__qualname__,
        fetches=fetches,
        direct=direct_call(guarded, cells),
    )
    return joined(state, entry, guarded)


def joined(state: RegionState, entry: _C.Entry, guarded: GuardedCode) -> _C.Entry:
    """The entry with what it remembers. It ends when a guarded object dies, which does not keep it alive; the next recompile
    tells of it."""
    entry.guarded_code = guarded
    died = state.state_of(guarded.manager.code, entry.globals).died
    on_death = functools.partial(_invalidate, weakref.ref(entry), died)  # needs no globals when Python shuts down
    guarded.manager.when_invalid(on_death)
    return entry


def _invalidate(reference: weakref.ref[_C.Entry], died: deque[str]) -> None:
    entry = reference()
    if entry is not None:
        entry.valid = False
        died.append(entry.guarded_code.manager.died)
