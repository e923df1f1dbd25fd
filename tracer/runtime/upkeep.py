"""Removes cache entries: covered ones, pairs that can be merged, and, beyond a capacity, the least recently used.

An entry is retired if another entry with the same graph is proved to serve every call that it serves. Two entries with the same
graph and the same code are merged if one conjunction of guards is proved to hold exactly where the guards of either hold. Where
the solver does not know, the entries stay as they are.

Most pairs need no solver: `_ShapeFacts.witness` is a call that an entry serves, and an entry that does not serve the witness of
another one cannot cover it. All questions of one call of a public function here share one budget of the solver; what is asked
beyond it is not known. The number of proofs in one `compact` is bounded, too.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import logging
import types
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import sympy

from shapes import solver
from shapes.evaluation import evaluate
from shapes.guards import Why
from shapes.printing import group, python_source
from shapes.regions import Condition, Region, ShapeRecord
from tracer import _C, logs, metrics
from tracer.graph.same_graph import fakes_of, layout_of, same_graph, sizes_of_outputs
from tracer.guards.constants import is_guardable_constant, same_constant
from tracer.guards.implication import constants, implied_beside_shapes
from tracer.guards.manager import CheckFunctionManager
from tracer.guards.shapes import ShapeGuards, ShapeLine
from tracer.guards.tensors import TensorMatch
from tracer.runtime import events
from tracer.runtime.guarded_code import GuardedCode, entries_of, entry_with_guards
from tracer.runtime.tracing_lock import TRACING
from tracer.sources.tensors import TensorSizeSource, TensorStrideSource

if TYPE_CHECKING:
    from tracer.runtime.region_state import RegionState

MOST_PROOFS = 256  # attempts to merge two entries, in one `compact` of one code object
log = logging.getLogger("tracer")


class Eviction(NamedTuple):
    """An entry that was removed. `reason`: "covered" by another entry, "merged" with another entry, "capacity", "returned": taken
    to serve one call alone and called again, or "undescribed": made before shapes were declared, with a graph break."""

    function: str
    reason: str
    guards: str  # as logs print them
    hits: int


# -- when an entry was made --------------------------------------------------------------------------------------------


def retire_and_evict(
    region: RegionState, function: types.FunctionType, entry: _C.Entry, others: list[_C.Entry] | None = None
) -> None:
    """After a new entry of a RegionState was made: retires the entries that it covers (of `others`, by default of all), then
    evicts, beyond the capacity, the least recently used. Pinned entries are not evicted."""
    with TRACING, solver.budget():
        known = entries_of(region.region, function.__code__, function.__globals__)
        older = [each for each in known if each is not entry]
        for other in older if others is None else others:
            if other.valid and covers(entry, other, as_written=region.backend.runs_as_written):
                _retire(region, other, entry)
        if region.capacity is not None:
            _evict_down_to(region, [other for other in older if other.valid], region.capacity - 1)


def is_redundant(region: RegionState, entry: _C.Entry, others: list[_C.Entry]) -> bool:
    """Whether one of the others is proved to cover an entry that is not installed. If so, it takes over the entry's pin."""
    as_written = region.backend.runs_as_written
    with solver.budget():
        known = next((other for other in others if other.valid and covers(other, entry, as_written=as_written)), None)
    if known is not None:
        known.guarded_code.pinned |= entry.guarded_code.pinned
    return known is not None


def _retire(region: RegionState, entry: _C.Entry, by: _C.Entry) -> None:
    by.guarded_code.pinned |= entry.guarded_code.pinned
    evict(region, entry, "covered")


def _evict_down_to(region: RegionState, entries: list[_C.Entry], room: int) -> None:
    """Evicts entries that are not pinned until `room` are left. `entries`: the most recently used first."""
    for entry in reversed([entry for entry in entries if not entry.guarded_code.pinned]):
        if sum(each.valid for each in entries) <= room:
            return
        evict(region, entry, "capacity")


def has_room(region: RegionState, entries: list[_C.Entry]) -> bool:
    """Whether one more entry may be made: with a capacity, if there is space or one to evict; else up to the recompile limit."""
    if region.capacity is None:
        return bool(len(entries) < region.limit())
    return len(entries) < region.capacity or not all(entry.guarded_code.pinned for entry in entries)


def evict(region: RegionState, entry: _C.Entry, reason: str) -> None:
    """Invalidates an entry and reports it. Calls that are running the entry go on."""
    entry.valid = False
    eviction = Eviction(entry.qualname, reason, entry.guarded_code.guards_text, entry.hits)
    region.stats["evict"] += 1
    region.stats["hits of removed entries"] += entry.hits
    logs.emit("evictions", lambda: f"{_eviction_line(eviction)}. Its guards:\n{eviction.guards}")
    if metrics.listeners:
        events.tell_of_entry(region, "evict", entry, _eviction_line(eviction), reason=reason)
    if region.on_evict is not None:
        try:
            region.on_evict(eviction)
        except Exception:
            log.exception("on_evict of %s failed", region.name)


def _eviction_line(eviction: Eviction) -> str:
    why = {
        "covered": "another entry with the same graph serves all that it served",
        "merged": "it was merged with another entry with the same graph",
        "capacity": "the capacity is used up, and it was used last longest ago",
        "returned": "its graph ran as written, for a state that was taken to be gone after one call, and that is there again",
        "undescribed": "it was made before shapes were declared, and another one says what it hands over at its graph break",
    }[eviction.reason]
    return f"evicted an entry of {eviction.function} with {eviction.hits} hits: {why}"


def compact(region: RegionState) -> int:
    """Retires and merges entries of all functions of a region; returns by how many their number fell. An entry that replaces a
    pinned one is pinned. The tracing lock is held, so that no other thread drops the entry that covers a retired one."""
    with TRACING, solver.budget():
        before = len(region.entries())
        for code in region.region.codes():
            for same in _group_by_origin(region.region.entries(code)):
                _compact(region, code, same)
        return before - len(region.entries())


def _group_by_origin(entries: list[_C.Entry]) -> Iterable[list[_C.Entry]]:
    """Those that calls look among together: of the same globals and the same forced backend."""
    found: dict[tuple[int, int], list[_C.Entry]] = {}
    for entry in entries:
        found.setdefault((id(entry.globals), id(entry.compiler)), []).append(entry)
    return found.values()


def _compact(region: RegionState, code: types.CodeType, entries: list[_C.Entry]) -> None:
    as_written = (entries[0].guarded_code.forced_by or region.compiler_fn).runs_as_written
    for alike in _group_by_graph(entries, as_written):
        for one, other in itertools.permutations(alike, 2):
            if one.valid and other.valid and covers(one, other, as_written=as_written):
                _retire(region, other, one)
        if as_written:
            _merge_pairs(region, code, [entry for entry in alike if entry.valid])


def _group_by_graph(entries: list[_C.Entry], as_written: bool) -> list[list[_C.Entry]]:
    """Groups of two or more entries with the same graph."""
    groups: list[list[_C.Entry]] = []
    for entry in entries:
        same = (group for group in groups if _same_graphs(group[0].guarded_code, entry.guarded_code, as_written))
        group = next(same, None)
        if group is None:
            groups.append([entry])
        else:
            group.append(entry)
    return [group for group in groups if len(group) > 1]


def _merge_pairs(region: RegionState, code: types.CodeType, entries: list[_C.Entry]) -> None:
    """Merges entries two by two. A pair that cannot be merged is not tried again."""
    pending_pairs = deque(itertools.combinations(entries, 2))
    proofs = MOST_PROOFS
    while pending_pairs and proofs > 0:
        one, other = pending_pairs.popleft()
        if not (one.valid and other.valid) or _prevents_merge(one, other, entries):
            continue
        proofs -= 1
        made = merge_entries(one, other, region)
        if made is None:
            continue
        made.guarded_code.pinned = one.guarded_code.pinned or other.guarded_code.pinned
        region.region.install(code, one.globals, made)
        if metrics.listeners:
            events.tell_of_entry(region, "merge", made, "an entry was made of two with the same graph")
        for each in (one, other):
            evict(region, each, "merged")
            entries.remove(each)
        pending_pairs.extend((made, each) for each in entries)
        entries.append(made)


def _prevents_merge(one: _C.Entry, other: _C.Entry, entries: list[_C.Entry]) -> bool:
    """Whether some other entry has a witness that neither of the two serves, but that meets every condition which a union of
    their guards could consist of. Then no conjunction holds exactly where one of the two does."""
    mine, theirs = _ShapeFacts.of(one), _ShapeFacts.of(other)
    common = [*mine.candidates_for_union(theirs), *theirs.candidates_for_union(mine)]
    for entry in entries:
        if entry is one or entry is other:
            continue
        point = _ShapeFacts.of(entry).witness
        if point is None or mine.holds_at(point) is not False or theirs.holds_at(point) is not False:
            continue
        if all(holds_at([each.expr], point) for each in common):
            return True
    return False


# -- one entry and another ---------------------------------------------------------------------------------------------


def covers(one: _C.Entry, other: _C.Entry, *, as_written: bool) -> bool:
    """Whether `one` is proved to serve every call that `other` serves, with the same graph. `as_written`: the backend runs the
    operations of a graph as they are. For other backends sizes that are constants may give better code, so they must agree."""
    wide, narrow = _ShapeFacts.of(one), _ShapeFacts.of(other)
    if narrow.witness is not None and wide.holds_at(narrow.witness) is False:
        return False
    return (
        _same_graphs(one.guarded_code, other.guarded_code, as_written)
        and implied_beside_shapes(other.guarded_code.manager.guards, one.guarded_code.manager.guards)
        and narrow.implies(wide)
    )


def _same_graphs(one: GuardedCode, other: GuardedCode, as_written: bool) -> bool:
    if one.graph is None or other.graph is None or one.broken != other.broken:
        return one.code is None and other.code is None
    if not same_graph(one.graph, other.graph, inputs=not as_written):
        return False
    return as_written or layout_of(one.graph, renaming_to_places(one.shapes)) == layout_of(
        other.graph, renaming_to_places(other.shapes)
    )


def merge_entries(one: _C.Entry, other: _C.Entry, region: RegionState) -> _C.Entry | None:
    """An entry that serves exactly the calls that one of the two serves; None if none is proved to do so."""
    mine, theirs = one.guarded_code, other.guarded_code
    if not _same_code(one, other) or not _same_but_for_shapes(mine, theirs):
        return None
    if not _have_same_sizes(mine, theirs):
        return None
    if theirs.outputs is not None and mine.outputs is None:  # the result takes its output sizes from the loaded entry
        return merge_entries(other, one, region)
    shapes, others = _ShapeFacts.of(one), _ShapeFacts.of(other)
    union = shapes.union(others)
    if union is None:
        return None
    record = _shape_record(union, mine, shapes.labels | others.labels)
    kept = [guard for guard in mine.manager.guards if not isinstance(guard, ShapeLine)]
    lines = tuple([_shape_line(condition, shapes.labels | others.labels) for condition in union])
    manager = CheckFunctionManager(
        [*kept, ShapeGuards(lines)], mine.manager.code, mine.manager.globals, fetched=mine.manager.fetched
    )
    guarded = GuardedCode(
        mine.code,
        manager,
        mine.graph,
        mine.graph_name,
        record,
        mine.broken,
        direct=mine.direct,
        outputs=mine.outputs,
        forced_by=mine.forced_by,
    )
    return entry_with_guards(one, guarded, region)


def _have_same_sizes(one: GuardedCode, other: GuardedCode) -> bool:
    """Whether the tensors in both graphs have the same symbolic sizes. They differ where each graph was traced for one static
    size. Of a loaded graph only the sizes of the outputs are known."""
    if one.outputs is None and other.outputs is None:
        return fakes_of(one.graph, renaming_to_places(one.shapes)) == fakes_of(other.graph, renaming_to_places(other.shapes))
    sizes = [
        [
            tuple(map(renaming_to_places(each.shapes), sizes_of_output))
            for sizes_of_output in (each.outputs if each.outputs is not None else sizes_of_outputs(each.graph))
        ]
        for each in (one, other)
    ]
    return sizes[0] == sizes[1]


def _shape_record(conditions: list[Condition], guarded: GuardedCode, labels: dict[Any, Any]) -> ShapeRecord:
    """The conditions, over the symbols of the graph where the graph has symbols for them."""
    places = {} if guarded.shapes is None else dict(guarded.shapes.places)
    symbols = {_symbol_at(label, bool(symbol.is_integer)): symbol for symbol, label in places.items()}
    rewritten = [dataclasses.replace(each, expr=each.expr.xreplace(symbols)) for each in conditions]
    return ShapeRecord(tuple(rewritten), {name: label for name, label in labels.items() if name not in symbols} | places)


def _same_code(one: _C.Entry, other: _C.Entry) -> bool:
    """Whether the output code of both runs the same graph on the same inputs, and replays the same side effects."""
    mine, theirs = one.guarded_code, other.guarded_code
    if mine.code is None or theirs.code is None or mine.broken or theirs.broken or mine.graph is None or theirs.graph is None:
        return False
    a, b = mine.code, theirs.code
    graphs = {mine.graph_name: "", theirs.graph_name: ""}
    names = [[graphs.get(name, name) for name in code.co_freevars] for code in (a, b)]
    own = len(a.co_freevars) - len(one.extras)
    values = [[cell.cell_contents for cell in entry.extras] for entry in (one, other)]
    return (
        names[0] == names[1]
        and (a.co_code, a.co_names, a.co_varnames, a.co_cellvars) == (b.co_code, b.co_names, b.co_varnames, b.co_cellvars)
        and a.co_exceptiontable == b.co_exceptiontable
        and len(a.co_consts) == len(b.co_consts)
        and all(map(_same_constant, a.co_consts, b.co_consts))
        and all(x is y or name == "" for name, x, y in zip(names[0][own:], *values))
        and one.needs_hook == other.needs_hook
        and mine.manager.fetched == theirs.manager.fetched
        and same_graph(mine.graph, theirs.graph, inputs=True)
    )


def _same_constant(a: Any, b: Any) -> bool:
    if a is b or type(a) is types.CodeType:
        return bool(a == b)
    return is_guardable_constant(a) and same_constant(b, a)


def _same_but_for_shapes(one: GuardedCode, other: GuardedCode) -> bool:
    mine, theirs = [[guard for guard in each.manager.guards if not isinstance(guard, ShapeLine)] for each in (one, other)]
    tensors = [{guard for guard in each if isinstance(guard, TensorMatch)} for each in (mine, theirs)]
    return tensors[0] == tensors[1] and implied_beside_shapes(mine, theirs) and implied_beside_shapes(theirs, mine)


# -- shapes ------------------------------------------------------------------------------------------------------------


def _symbol_at(label: Any, integer: bool = True) -> Any:
    return sympy.Symbol(label.name, integer=True) if integer else sympy.Symbol(label.name, real=True)


def renaming_to_places(record: ShapeRecord | None) -> Callable[[Any], Any]:
    """A function that replaces the symbols of a trace in an expression by symbols named after their sources."""
    places = {} if record is None else record.places
    names = {symbol: _symbol_at(label, bool(symbol.is_integer)) for symbol, label in places.items()}
    return lambda expr: expr.xreplace(names)


@dataclasses.dataclass(frozen=True, eq=False)
class _ShapeFacts:
    """The guards of an entry on sizes, strides and ints, over symbols named after the sources of these."""

    conditions: tuple[Condition, ...]
    constants: tuple[Any, ...]
    labels: dict[Any, Any]

    @classmethod
    def of(cls, entry: _C.Entry) -> _ShapeFacts:
        known = entry.guarded_code.shape_facts
        if "facts" not in known:
            known["facts"] = cls._read(entry.guarded_code)
        found: _ShapeFacts = known["facts"]
        return found

    @classmethod
    def _read(cls, guarded: GuardedCode) -> _ShapeFacts:
        record, rename = guarded.shapes, renaming_to_places(guarded.shapes)
        found = dict(constants(guarded.manager.guards))
        static = tuple([sympy.Eq(_symbol_at(label), value, evaluate=False) for label, value in found.items()])
        labels = {_symbol_at(label): label for label in found}
        if record is None:
            return cls((), static, labels)
        conditions = tuple([dataclasses.replace(each, expr=rename(each.expr)) for each in record.conditions])
        return cls(conditions, static, labels | {rename(symbol): label for symbol, label in record.places.items()})

    @functools.cached_property
    def witness(self) -> dict[Any, int] | None:
        """Values for which the guards hold, if z3 finds any."""
        return solver.witness(self.holds(), facts=self.facts(self))

    @functools.cached_property
    def check(self) -> Callable[[dict[Any, int]], bool]:
        return Region(tuple([Condition(expr, Why.BASE) for expr in self.holds()])).check

    def holds_at(self, point: dict[Any, int]) -> bool | None:
        """Whether the guards hold for a call with these values; None if they read a value that is not given."""
        if any(symbol not in point for expr in self.holds() for symbol in expr.free_symbols):
            return None
        return self.check(point)

    def candidates_for_union(self, other: _ShapeFacts) -> list[Condition]:
        """The conditions of this entry that the other entry's witness meets, and which may therefore be part of a union."""
        point = other.witness
        return [each for each in self._weaker_conditions() if point is None or holds_at([each.expr], point) is not False]

    def holds(self) -> list[Any]:
        return [*(each.expr for each in self.conditions), *self.constants]

    def facts(self, other: _ShapeFacts) -> list[Any]:
        """No size or stride is negative."""
        labels = self.labels | other.labels
        return [name >= 0 for name, label in labels.items() if isinstance(label, (TensorSizeSource, TensorStrideSource))]

    def implies(self, other: _ShapeFacts) -> bool:
        """Whether these guards are proved to imply those of `other`."""
        return solver.implies(self.holds(), other.holds(), self.facts(other)) is True

    def union(self, other: _ShapeFacts) -> list[Condition] | None:
        """Conditions that hold exactly where these guards or the other ones do: conditions of one that the other implies. None if
        those are not proved to suffice."""
        facts = self.facts(other)
        kept = [each for each in self.candidates_for_union(other) if solver.implies(other.holds(), each.expr, facts)]
        kept += [each for each in other.candidates_for_union(self) if solver.implies(self.holds(), each.expr, facts)]
        kept = list({each.expr: each for each in kept}.values())
        either = [sympy.And(*self.holds()), sympy.And(*other.holds())]
        given = [*self.constants, *(each.expr for each in kept)]
        proved = solver.satisfy(given, facts=facts, none_of=either).status == "unsat"
        if not proved:
            return None
        grouped = group([each.expr for each in kept])
        return [dataclasses.replace(kept[line.members[0]], expr=line.expr) for line in grouped]

    def _weaker_conditions(self) -> list[Condition]:
        """The conjuncts of the guards, and for each equality with a constant the two bounds that it implies."""
        found = []
        for each in self.conditions:
            found += [dataclasses.replace(each, expr=part) for part in sympy.And.make_args(each.expr)]
        for each in list(found):
            if isinstance(each.expr, sympy.Eq) and each.expr.lhs.is_Symbol and each.expr.rhs.is_Integer:
                term, value = each.expr.args
                found += [dataclasses.replace(each, expr=bound) for bound in (term >= value, term <= value)]
        return found


def holds_at(exprs: Iterable[Any], point: dict[Any, int]) -> bool | None:
    """Whether conditions hold for these values, computed as check_fn would; None if they read a value that is not given."""
    try:
        return all(bool(evaluate(expr, point)) for expr in exprs)
    except KeyError:
        return None
    except (ArithmeticError, ValueError):  # a guard that raises is a miss
        return False


def _shape_line(condition: Condition, labels: dict[Any, Any]) -> ShapeLine:
    def render(name: Any) -> str:
        return python_source(condition.expr, {symbol: name(labels[symbol]) for symbol in condition.expr.free_symbols})

    return ShapeLine.of(render, condition.recorded if condition.why is not Why.BASE else None, condition.where)
