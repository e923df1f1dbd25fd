"""Cache entries: what an entry holds on the Python side, and how entries are made, found and told apart.

C looks entries up at a call (`csrc/dispatch`); the functions here are asked at a miss, and when entries are made, saved and
explained.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import weakref
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from tracer import _C, metrics
from tracer.guards.decision import decide, tests_of

if TYPE_CHECKING:
    from torch import fx

    from tracer.backends.calling import Backend
    from tracer.guards.manager import CheckFunctionManager
    from tracer.runtime.region_state import RegionState
    from tracer.runtime.twins import Compile


@dataclasses.dataclass
class GuardedCode:
    """The result of tracing a frame: the code to run where `check_fn` holds. With `code` None, CPython runs the original
    code under these guards."""

    code: types.CodeType | None
    manager: CheckFunctionManager
    graph: fx.GraphModule | None = None
    graph_name: str | None = None
    shapes: Any = None  # shapes.regions.ShapeRecord: the shape guards, and the source of each symbol
    broken: bool = False  # the graph ends in a break, and resume functions run the rest of the frame
    reason: str = ""  # of that break
    described: Any = None  # codegen.handover.Break or Return: where what it hands over, or returns, comes from
    pinned: bool = False  # never evicted for lack of capacity
    direct: tuple[tuple[int, ...], types.CodeType] | None = None  # graph inputs and original code, for Entry(direct=...)
    outputs: Any = None  # the sizes of each tensor that the graph returns, of a loaded graph, whose nodes have no fake values
    shape_facts: dict[str, Any] = dataclasses.field(default_factory=dict)  # computed by upkeep from the guards; twins have one
    compiled: Compile | None = None  # what twins know it by, if they may take it over
    backends_callable: Any = None  # what the backend made of the graph, where the next trace may give it again: known_graphs
    forced_by: Backend | None = None  # the backend that a stance forced when it was made; it serves only under that

    @property
    def check_fn(self) -> Any:
        return self.manager.check_fn

    @property
    def guards_text(self) -> str:
        """`check_fn` as a person reads it."""
        return str(self.manager.source_text)


def entries_of(region: _C.Region, code: types.CodeType, globals_: dict[str, Any]) -> list[_C.Entry]:
    """The live entries of a function's code, of the compiler that holds now."""
    return [entry for entry in region.serving(code, globals_) if entry.valid]


def find_entry(entries: list[_C.Entry], function: types.FunctionType, args: tuple[Any, ...]) -> _C.Entry | None:
    """The first entry whose guards hold for these argument slots; None on a miss. A check_fn takes the closure after them, if
    any."""
    return next((entry for entry in entries if passes(entry.guarded_code, function, args)), None)


def passes(guarded: GuardedCode, function: types.FunctionType, args: tuple[Any, ...]) -> bool:
    """Whether the guards hold for these argument slots."""
    positional = (*args, function.__closure__) if function.__code__.co_freevars else args
    try:
        return bool(guarded.manager.holds(guarded.check_fn(*positional)))
    except Exception:  # a value that the guards read is gone, as in an emptied cell
        return False


def guard_failures(entries: list[_C.Entry], function: types.FunctionType, args: tuple[Any, ...]) -> list[Any]:
    """The first guard that fails in each entry."""
    failures = [entry.guarded_code.manager.explain(args, function.__closure__) for entry in entries]
    return [failure for failure in failures if failure is not None]


def decision_among(entries: tuple[_C.Entry, ...]) -> _C.Decision:
    """A decision tree that selects among the entries of one code object, by the guards in which they differ."""
    managers = [entry.guarded_code.manager for entry in entries]
    for manager in managers[:-1]:
        manager.share(managers[-1])
    demands = [dict.fromkeys(manager.guards) for manager in managers]
    common = set(demands[-1])  # guards that all entries have select none; in a large model these are nearly all
    for found in demands[:-1]:  # in steps, so that other threads can run in between
        common.intersection_update(found)
    tests = [tests_of([guard for guard in found if guard not in common]) for found in demands]
    return decide(entries, tests, managers[0].code, managers[0].globals)


def check_fn_of_entry(state: RegionState, guarded: GuardedCode) -> Any:
    """The check_fn for an entry; wrapped if somebody watches the calls that hit (`metrics.watch`)."""
    return guarded.check_fn if metrics.watch is None else metrics.watch(state, guarded)


def direct_call(guarded: GuardedCode, extras: tuple[types.CellType, ...]) -> Any:
    """What the extension may call in place of the entry's code: the graph, the numbers of its inputs, and the original code,
    which is run if the graph raises. None where the code does more than call the graph."""
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
    """The cache entry of a RegionState for the guarded code of a function.

    `extras`: the objects that the code needs beside the program's (the graph, for one), by the names of the cells it has them
    in. `needs_hook`: the code calls functions of the program, whose frames are offered to the region. `fetches`: check_fn
    returns a tuple of values that it has read, which the code takes after its arguments.
    """
    cells = tuple(types.CellType(value) for value in extras.values())
    entry = _C.Entry(
        check_fn_of_entry(state, guarded),
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
    return attach_guarded_code(state, entry, guarded)


def entry_with_guards(
    entry: _C.Entry, guarded: GuardedCode, state: RegionState, extras: tuple[types.CellType, ...] | None = None
) -> _C.Entry:
    """A new entry of a RegionState, with the code of another one and other guards. `extras`: in place of those of the other."""
    cells = entry.extras if extras is None else extras
    own = 0 if entry.code is None else len(entry.code.co_freevars) - len(cells)
    made = _C.Entry(
        check_fn_of_entry(state, guarded),
        entry.code,
        entry.globals,
        cells,
        tuple([types.CellType() for _ in range(own)]) or None,  # only their number is read
        needs_hook=entry.needs_hook,
        name=entry.name,
        qualname=entry.qualname,
        fetches=bool(guarded.manager.fetched),
        direct=direct_call(guarded, cells),
    )
    return attach_guarded_code(state, made, guarded)


def attach_guarded_code(state: RegionState, entry: _C.Entry, guarded: GuardedCode) -> _C.Entry:
    """Gives an entry its guarded code. The entry is invalidated when an object that it guards dies; the next recompile reports
    which. Neither keeps the other alive."""
    entry.guarded_code, entry.compiler = guarded, guarded.forced_by
    if metrics.watch is not None:
        entry.time_runs()
    dead_objects = state.state_of(guarded.manager.code, entry.globals).dead_objects
    on_death = functools.partial(_invalidate, weakref.ref(entry), dead_objects, state.stats)  # no globals: Python may shut down
    guarded.manager.when_invalid(on_death)
    return entry


def _invalidate(reference: weakref.ref[_C.Entry], dead_objects: deque[str], stats: Counter[str]) -> None:
    entry = reference()
    if entry is not None:
        if entry.valid:
            stats["hits of removed entries"] += entry.hits
        entry.valid = False
        dead_objects.append(entry.guarded_code.manager.died)
