"""The region that an entry serves: its shape guards, static sizes and strides over the variables of a domain.

What an entry guards beside shapes is asked of its check_fn, at one shape of the region; see docs/decisions/shape_domains.md.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import sympy
import torch

from shapes.guards import Why
from shapes.regions import Condition, Region, member, over
from tracer import _C
from tracer.graph.fake_tensors import expr_of, is_symbolic
from tracer.graph.output_graph import EXAMPLE
from tracer.guards import TensorMatch
from tracer.serving.calls import Calls, Layout
from tracer.sources import Source
from tracer.sources.tensors import TensorSizeSource, TensorStrideSource


@dataclasses.dataclass(frozen=True, eq=False)
class Served:
    """An entry, its region, and, if it serves no call like the example, why."""

    entry: _C.Entry
    region: Region
    refused: str | None = None
    outputs: tuple[tuple[Any, ...], ...] = ()  # the sizes of each tensor that its graph gives, over the domain's variables
    places: Mapping[Any, Any] = dataclasses.field(default_factory=dict)  # symbols of its trace, over the domain's variables

    @property
    def kind(self) -> str:
        """"graph"; "python": nothing of the program goes into a graph, or it raises; "broken": a graph and what is behind it."""
        guarded = self.entry.guarded_code
        return "python" if guarded.code is None else "broken" if guarded.broken else "graph"


def served(entry: _C.Entry, calls: Calls) -> Served:
    """What an entry serves of these calls."""
    region, outputs, places = _region(entry, calls)
    found = member(calls.domain, region)
    if found.status == "unsat":
        return Served(entry, region, "its shapes lie outside of the domain", outputs, places)
    if found.witness is None:
        return Served(entry, region, "the solver does not know whether its guards can hold", outputs, places)
    failure = refusal(entry, calls, found.witness)
    return Served(entry, region, failure, outputs, places)


def refusal(entry: _C.Entry, calls: Calls, point: dict[Any, int]) -> str | None:
    """The guard that a call at a point does not meet; None if the entry serves it."""
    manager = entry.guarded_code.manager
    if manager.holds(entry.guarded_code.check_fn(*calls.positional(point))):
        return None
    failure = manager.explain(calls.at(point), calls.function.__closure__)
    return "its check function does not hold" if failure is None else str(failure)


def _region(entry: _C.Entry, calls: Calls) -> tuple[Region, tuple[tuple[Any, ...], ...], dict[Any, Any]]:
    """And the sizes of what the graph gives, and what the symbols of its trace are in the domain."""
    manager = entry.guarded_code.manager
    layouts = {layout.tensor.source: layout for layout in calls.layouts.values()}
    conditions = []
    for guard in manager.guards:
        if isinstance(guard, TensorMatch) and guard.source in layouts:
            conditions += _static(guard, layouts[guard.source])
    record = entry.guarded_code.shapes
    if record is None:
        return Region(tuple(conditions)), (), {}
    values = manager.frame_values(calls.slots, calls.function.__closure__)
    found = {symbol: _value(label, layouts, values) for symbol, label in record.places.items()}
    outputs = tuple(output_sizes(entry.guarded_code, found))
    return Region((*conditions, *over(record.conditions, found).conditions)), outputs, found


def output_sizes(guarded: Any, found: dict[Any, Any]) -> Iterator[tuple[Any, ...]]:
    """The sizes of each tensor that the graph gives, in terms of what the symbols of its trace are found to be."""
    if guarded.outputs is not None:
        yield from (tuple([size.xreplace(found) for size in sizes]) for sizes in guarded.outputs)
        return
    for item in () if guarded.graph is None else guarded.graph.graph.output_node().args[0]:
        example = item.meta.get(EXAMPLE) if isinstance(item, torch.fx.Node) else None
        if isinstance(example, torch.Tensor):
            sizes = [expr_of(size) if is_symbolic(size) else sympy.Integer(int(size)) for size in example.shape]
            yield tuple([size.xreplace(found) for size in sizes])


def _static(guard: TensorMatch, layout: Layout) -> list[Condition]:
    """The sizes and strides that are compared with constants."""
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


def _value(label: Any, layouts: dict[Source, Layout], values: Any) -> Any:
    """What is found at a label in the calls: an expression over the domain's variables, or the example's number."""
    layout = layouts.get(label.base) if isinstance(label, (TensorSizeSource, TensorStrideSource)) else None
    if layout is None:
        return sympy.sympify(label.get(values))
    return (layout.sizes if isinstance(label, TensorSizeSource) else layout.strides)[label.dim]
