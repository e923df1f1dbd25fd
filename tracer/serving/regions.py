"""The region that an entry serves: its shape guards, static sizes and strides over the variables of a domain.

Guards on other things than shapes are tested by running check_fn at one shape of the region; see docs/decisions/shape_domains.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sympy

from shapes.domain import Domain, Point
from shapes.guards import Why
from shapes.regions import Condition, Region, SearchResult, find_member, substituted
from tracer import _C
from tracer.graph.same_graph import sizes_of_outputs
from tracer.guards.identity import TypeMatch
from tracer.guards.manager import CheckFunctionManager
from tracer.guards.shapes import ShapeGuards, ShapeLine
from tracer.guards.tensors import TensorMatch
from tracer.guards.values import EqualsMatch
from tracer.serving.calls import Family, Layout
from tracer.sources.attributes import TypeSource
from tracer.sources.base import Source
from tracer.sources.tensors import StorageOffsetSource, TensorSizeSource, TensorStrideSource

if TYPE_CHECKING:
    from tracer.guards.base import Guard
    from tracer.runtime.guarded_code import GuardedCode
    from tracer.serving.after_breaks import Behind

NOWHERE = Region((Condition(sympy.false, Why.SPECIALIZED),))
UNKNOWN = "the solver does not know whether its guards can hold"


class _NotInCalls(Exception):
    """What an entry guards the size of is not there in these calls: a mask that is None, an item of a longer list."""


@dataclasses.dataclass(frozen=True, eq=False)
class Served:
    """An entry and its region. `refused`: why it serves no call like the example; None if it does."""

    entry: _C.Entry
    region: Region
    refused: str | None = None
    outputs: tuple[tuple[Any, ...], ...] = ()  # sizes of each output of its graph, over the domain's variables
    places: Mapping[Any, Any] = dataclasses.field(default_factory=dict)  # symbol of its trace -> expression over these
    witness: Mapping[Any, int] | None = None  # a shape that it serves
    behind: tuple[Behind, ...] | None = None  # after its graph break, where that is covered

    @property
    def kind(self) -> str:
        """One of "graph", "python" (no graph, or it raises) and "broken" (a graph, and the frames after a break)."""
        guarded = self.entry.guarded_code
        return "python" if guarded.code is None else "broken" if guarded.broken else "graph"


def covers(each: Served) -> bool:
    """Whether it serves calls to their end: an entry with a graph break does if what is after that is covered."""
    return each.refused is None and (each.kind != "broken" or each.behind is not None)


def like_example(domain: Domain, example: Point, covered: Sequence[Region], point: Point) -> Point:
    """A shape in no region, as `point` is, that is like the example where it can be, and else has no size 0 or 1. The entry that
    is made for such a shape often serves those of these sizes, too, and one made for them nothing else."""
    for each in domain.variables:
        two = max(each.smallest, -(-2 // each.multiple_of) * each.multiple_of)
        usual = (example[each.symbol], min(two, each.largest))
        for value in dict.fromkeys(value for value in usual if value >= 2):
            moved = {**point, each.symbol: value}
            if domain.holds(moved) and not any(region.check(moved) for region in covered):
                point = moved
                break
    return point


def served(entry: _C.Entry, calls: Family) -> Served:
    """Which of these calls an entry serves."""
    try:
        region, outputs, places = _region_of_entry(entry, calls)
    except _NotInCalls as error:
        return Served(entry, NOWHERE, str(error))
    found = SearchResult("sat", dict(calls.example)) if region.check(calls.example) else find_member(calls.domain, region)
    if found.status == "unsat":
        return Served(entry, region, "its shapes lie outside of the domain", outputs, places)
    if found.witness is None:
        return Served(entry, region, UNKNOWN, outputs, places)
    failure = (
        _guard_not_understood(entry, calls)
        or failing_guard(entry, calls, found.witness)
        or _guard_failing_for_originals(entry, calls)
    )
    return Served(entry, region, failure, outputs, places, found.witness)


def _guard_not_understood(entry: _C.Entry, calls: Family) -> str | None:
    """A guard on a declared int of a kind that cannot be expressed in the region, in words."""
    read = (TypeMatch, EqualsMatch, ShapeLine, ShapeGuards)
    for guard in entry.guarded_code.manager.guards:
        if not isinstance(guard, read) and any(_leads_through(source, calls.ints) for source in guard.sources()):
            return f"what it guards of an int that was declared is not looked into: {guard.lines()[0]}"
    return None


def _leads_through(source: Source | None, places: Container[Source]) -> bool:
    """Whether a source is one of the places or is read through one. The type of an int is that of every other one."""
    while source is not None and source not in places:
        source = None if isinstance(source, TypeSource) and source.base in places else source.base
    return source is not None


def _guard_failing_for_originals(entry: _C.Entry, calls: Family) -> str | None:
    """If calls have copies of the example's objects: a guard on something else than shapes that fails for the originals."""
    if not calls.copies_objects:
        return None
    manager, function = entry.guarded_code.manager, calls.function
    declared = {layout.tensor.source for layout in calls.layouts.values()}
    kept = [guard for guard in manager.guards if not _is_shape_guard(guard, declared, calls)]
    other_guards = CheckFunctionManager(kept, manager.code, manager.globals, fetched=manager.fetched)
    slots = (*calls.slots, function.__closure__) if function.__code__.co_freevars else calls.slots
    if other_guards.holds(other_guards.check_fn(*slots)):
        return None
    return str(other_guards.explain(calls.slots, function.__closure__) or "its guards do not hold for the objects of the example")


def _is_shape_guard(guard: Guard, declared: set[Source], calls: Family) -> bool:
    if isinstance(guard, (ShapeLine, ShapeGuards)):
        return True
    if isinstance(guard, TensorMatch):
        return guard.source in declared
    return isinstance(guard, EqualsMatch) and guard.source in calls.ints


def failing_guard(entry: _C.Entry, calls: Family, point: dict[Any, int] | None) -> str | None:
    """The guard of an entry that fails for the call at a point, or for the example itself; None if the entry serves it."""
    manager = entry.guarded_code.manager
    if manager.holds(entry.guarded_code.check_fn(*calls.positional(point))):
        return None
    failure = manager.explain(calls.slots if point is None else calls.at(point), calls.function.__closure__)
    return "its check function does not hold" if failure is None else str(failure)


def _region_of_entry(entry: _C.Entry, calls: Family) -> tuple[Region, tuple[tuple[Any, ...], ...], dict[Any, Any]]:
    """The region of an entry, the sizes of its graph's outputs, and the expression of each symbol of its trace."""
    manager = entry.guarded_code.manager
    layouts = {layout.tensor.source: layout for layout in calls.layouts.values()}
    conditions = []
    for guard in manager.guards:
        if isinstance(guard, TensorMatch) and guard.source in layouts:
            conditions += _static_conditions(guard, layouts[guard.source])
        if isinstance(guard, EqualsMatch) and guard.source in calls.ints:
            same = sympy.Eq(calls.ints[guard.source], guard.value) if type(guard.value) is int else sympy.false
            conditions.append(Condition(same, Why.SPECIALIZED, guard.where, guard.lines()[0]))
    record = entry.guarded_code.shapes
    if record is None:
        return Region(tuple(conditions)), (), {}
    values = manager.frame_values(calls.slots, calls.function.__closure__)
    found = {symbol: _value_of_label(label, layouts, calls.ints, values) for symbol, label in record.places.items()}
    outputs = tuple(output_sizes(entry.guarded_code, found))
    return Region((*conditions, *substituted(record.conditions, found).conditions)), outputs, found


def output_sizes(guarded: GuardedCode, found: dict[Any, Any]) -> Iterator[tuple[Any, ...]]:
    """The sizes of each output of the graph. `found`: symbol of the trace -> expression to replace it by."""
    known = guarded.outputs
    if known is None:
        known = () if guarded.graph is None else sizes_of_outputs(guarded.graph)
    yield from (tuple([size.xreplace(found) for size in sizes]) for sizes in known)


def _static_conditions(guard: TensorMatch, layout: Layout) -> list[Condition]:
    """The conditions that a guard puts on sizes and strides by comparing them with constants."""
    found = []
    for seen, now in ((guard.spec.sizes, layout.sizes), (guard.spec.strides, layout.strides)):
        if seen is None:
            continue
        if len(seen) != len(now):
            return [Condition(sympy.false, Why.SPECIALIZED, guard.where, guard.lines()[0])]
        for fixed, expr in zip(seen, now):
            if fixed is not None:
                found.append(Condition(sympy.Eq(expr, fixed), Why.SPECIALIZED, guard.where, guard.lines()[0]))
    return [condition for condition in found if condition.expr is not sympy.true]


def _value_of_label(label: Any, layouts: dict[Source, Layout], ints: Mapping[Source, Any], values: Any) -> Any:
    """The value of a label in the calls: an expression over the domain's variables, or the number in the example."""
    if label in ints:
        return ints[label]
    of_tensor = isinstance(label, (TensorSizeSource, TensorStrideSource, StorageOffsetSource))
    layout = layouts.get(label.base) if of_tensor else None
    if layout is None:
        return _number_at(label, values)
    if isinstance(label, StorageOffsetSource):
        return layout.offset
    numbers = layout.sizes if isinstance(label, TensorSizeSource) else layout.strides
    if label.dim >= len(numbers):
        raise _NotInCalls(f"there is no {label.name} in these calls")
    return numbers[label.dim]


def _number_at(label: Any, values: Any) -> Any:
    try:
        number = label.get(values)
    except Exception as error:
        raise _NotInCalls(f"there is no {label.name} in these calls ({type(error).__name__})") from None
    if not isinstance(number, (int, float)):
        raise _NotInCalls(f"{label.name} is a {type(number).__qualname__} in these calls, not a number")
    return sympy.sympify(number)
