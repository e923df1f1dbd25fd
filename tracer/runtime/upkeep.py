"""What becomes of the entries of a function when others come: retired, merged, or, beyond a capacity, evicted.

An entry is retired if another one, with the same graph, is proved to serve every call that it serves. Two entries with the same
graph and the same code are merged where one conjunction of their guards is proved to say what either says. What the solver cannot
tell leaves the entries as they are.

Most pairs of entries are told apart without the solver, by a call that each of them serves (`_Shapes.witness`): what does not
hold there is implied by nothing. How much is proved in one go is bounded.
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
from tracer import _C, guards, logs, metrics
from tracer.graph.same_graph import fakes_of, layout_of, same_graph, sizes_of_outputs
from tracer.guards.constants import same_constant
from tracer.guards.implication import constants, implied_beside_shapes
from tracer.runtime.guarded_code import GuardedCode, direct_call, entries_of, joined, watched
from tracer.runtime.tracing_lock import TRACING
from tracer.sources.tensors import TensorSizeSource, TensorStrideSource

if TYPE_CHECKING:
    from tracer.runtime.region_state import RegionState

MOST_PROOFS = 256  # pairs of entries for which it is tried to prove that they are one, in one go
log = logging.getLogger("tracer")


class Eviction(NamedTuple):
    """An entry that is no longer there. `reason`: "covered" by another one, "merged" with another one, or "capacity"."""

    function: str
    reason: str
    guards: str  # as logs show them
    hits: int


# -- when an entry was made --------------------------------------------------------------------------------------------


def settle(region: RegionState, function: types.FunctionType, entry: _C.Entry, others: list[_C.Entry] | None = None) -> None:
    """Makes room for a new entry of a RegionState: drops what it covers (of `others`, or of all), then, beyond the capacity,
    what was used last longest ago. Pinned entries stay."""
    with TRACING:
        beside = _others(region, function, entry)
        for other in beside if others is None else others:
            if other.valid and covers(entry, other, as_written=region.compiler_fn.runs_as_written):
                _retire(region, other, entry)
        if region.capacity is not None:
            _bound(region, [other for other in beside if other.valid], region.capacity - 1)


def is_there(region: RegionState, entry: _C.Entry, others: list[_C.Entry]) -> bool:
    """Whether one of the others is proved to serve all that an entry, which is not installed, would; it is kept for both."""
    as_written = region.compiler_fn.runs_as_written
    known = next((other for other in others if other.valid and covers(other, entry, as_written=as_written)), None)
    if known is not None:
        known.guarded_code.pinned |= entry.guarded_code.pinned
    return known is not None


def _retire(region: RegionState, entry: _C.Entry, by: _C.Entry) -> None:
    by.guarded_code.pinned |= entry.guarded_code.pinned
    drop(region, entry, "covered")


def _others(region: RegionState, function: types.FunctionType, entry: _C.Entry) -> list[_C.Entry]:
    return [each for each in entries_of(region.region, function.__code__, function.__globals__) if each is not entry]


def _bound(region: RegionState, entries: list[_C.Entry], room: int) -> None:
    """`entries`: the last used first."""
    for entry in reversed([entry for entry in entries if not entry.guarded_code.pinned]):
        if sum(each.valid for each in entries) <= room:
            return
        drop(region, entry, "capacity")


def has_room(region: RegionState, entries: list[_C.Entry]) -> bool:
    """Whether one more entry may be made: beyond a capacity if another one may go, else up to the recompile limit."""
    if region.capacity is None:
        return bool(len(entries) < region.limit())
    return len(entries) < region.capacity or not all(entry.guarded_code.pinned for entry in entries)


def drop(region: RegionState, entry: _C.Entry, reason: str) -> None:
    """Takes an entry away and says so. Calls that are running it go on."""
    entry.valid = False
    eviction = Eviction(entry.qualname, reason, entry.guarded_code.guards_text, entry.hits)
    region.stats["evict"] += 1
    region.stats["hits of evicted entries"] += entry.hits
    logs.emit("evictions", lambda: _told(eviction))
    if metrics.listened:
        metrics.tell(metrics.Event("evict", region.name, entry.qualname, _told(eviction), 0.0, _about(region, entry)))
    if region.on_evict is not None:
        try:
            region.on_evict(eviction)
        except Exception:
            log.exception("on_evict of %s failed", region.name)


def _about(region: RegionState, entry: _C.Entry) -> dict[str, Any]:
    return {"state": region, "code": entry.guarded_code.manager.code, "entry": entry}


def _told(eviction: Eviction) -> str:
    why = {
        "covered": "another entry with the same graph serves all that it served",
        "merged": "it was merged with another entry with the same graph",
        "capacity": "the capacity is used up, and it was used last longest ago",
    }[eviction.reason]
    return f"evicted an entry of {eviction.function} with {eviction.hits} hits: {why}. Its guards:\n{eviction.guards}"


def compact(region: RegionState) -> int:
    """Retires and merges what can be, of all functions of a region; returns how many entries there are less. What stands for a
    pinned entry is pinned. Nothing is traced meanwhile: what one thread takes for the reason to drop an entry, no other drops."""
    with TRACING:
        before = len(region.entries())
        for code in region.region.codes():
            for same in _by_globals(region.region.entries(code)):
                _compact(region, code, same)
        return before - len(region.entries())


def _by_globals(entries: list[_C.Entry]) -> Iterable[list[_C.Entry]]:
    found: dict[int, list[_C.Entry]] = {}
    for entry in entries:
        found.setdefault(id(entry.globals), []).append(entry)
    return found.values()


def _compact(region: RegionState, code: types.CodeType, entries: list[_C.Entry]) -> None:
    as_written = region.compiler_fn.runs_as_written
    for alike in _by_graph(entries, as_written):
        for one, other in itertools.permutations(alike, 2):
            if one.valid and other.valid and covers(one, other, as_written=as_written):
                _retire(region, other, one)
        if as_written:
            _merge(region, code, [entry for entry in alike if entry.valid])


def _by_graph(entries: list[_C.Entry], as_written: bool) -> list[list[_C.Entry]]:
    """Those whose graphs are the same together; one that is alone has nothing to be compared with."""
    groups: list[list[_C.Entry]] = []
    for entry in entries:
        same = (group for group in groups if _same_graphs(group[0].guarded_code, entry.guarded_code, as_written))
        group = next(same, None)
        if group is None:
            groups.append([entry])
        else:
            group.append(entry)
    return [group for group in groups if len(group) > 1]


def _merge(region: RegionState, code: types.CodeType, left: list[_C.Entry]) -> None:
    """Merges what can be, two by two; a pair that cannot be merged now never can."""
    todo = deque(itertools.combinations(left, 2))
    proofs = MOST_PROOFS
    while todo and proofs > 0:
        one, other = todo.popleft()
        if not (one.valid and other.valid) or _is_between(one, other, left):
            continue
        proofs -= 1
        made = merged(one, other, region)
        if made is None:
            continue
        made.guarded_code.pinned = one.guarded_code.pinned or other.guarded_code.pinned
        region.region.install(code, one.globals, made)
        if metrics.listened:
            metrics.tell(metrics.Event("merge", region.name, made.qualname, "", 0.0, _about(region, made)))
        for each in (one, other):
            drop(region, each, "merged")
            left.remove(each)
        todo.extend((made, each) for each in left)
        left.append(made)


def _is_between(one: _C.Entry, other: _C.Entry, entries: list[_C.Entry]) -> bool:
    """Whether a call that neither serves meets all that both may ask: then no guards say what either says."""
    mine, theirs = _Shapes.of(one), _Shapes.of(other)
    common = [*mine.may_hold_for(theirs), *theirs.may_hold_for(mine)]
    for entry in entries:
        if entry is one or entry is other:
            continue
        point = _Shapes.of(entry).witness
        if point is None or mine.holds_at(point) is not False or theirs.holds_at(point) is not False:
            continue
        if all(holds_at([each.expr], point) for each in common):
            return True
    return False


# -- one entry and another ---------------------------------------------------------------------------------------------


def covers(one: _C.Entry, other: _C.Entry, *, as_written: bool) -> bool:
    """Whether `one` is proved to serve every call that `other` serves, by the same graph. `as_written`: the backend runs the
    operations of a graph whatever is known of its inputs; others make better code of sizes that are constants."""
    wide, narrow = _Shapes.of(one), _Shapes.of(other)
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
    return as_written or layout_of(one.graph, _places(one)) == layout_of(other.graph, _places(other))


def merged(one: _C.Entry, other: _C.Entry, region: RegionState) -> _C.Entry | None:
    """An entry that serves what either serves, and nothing else; None where there is no such, or it is not proved."""
    mine, theirs = one.guarded_code, other.guarded_code
    if not _same_code(one, other) or not _same_but_for_shapes(mine, theirs):
        return None
    if not _tell_the_same(mine, theirs):
        return None
    if theirs.outputs is not None and mine.outputs is None:  # what is told of both is what is known of the one that was loaded
        return merged(other, one, region)
    shapes, others = _Shapes.of(one), _Shapes.of(other)
    union = shapes.union(others)
    if union is None:
        return None
    record = _record(union, mine, shapes.labels | others.labels)
    kept = [guard for guard in mine.manager.guards if not isinstance(guard, guards.ShapeLine)]
    lines = tuple([_line(condition, shapes.labels | others.labels) for condition in union])
    manager = guards.CheckFunctionManager(
        [*kept, guards.ShapeGuards(lines)], mine.manager.code, mine.manager.globals, fetched=mine.manager.fetched
    )
    guarded = GuardedCode(
        mine.code, manager, mine.graph, mine.graph_name, record, mine.broken, direct=mine.direct, outputs=mine.outputs
    )
    return _with_guards(one, guarded, region)


def _tell_the_same(one: GuardedCode, other: GuardedCode) -> bool:
    """Whether the graphs tell the same sizes: where each was traced for one size, neither tells those of both. Of a graph that
    was loaded only the sizes of what it gives are known."""
    if one.outputs is None and other.outputs is None:
        return fakes_of(one.graph, _places(one)) == fakes_of(other.graph, _places(other))
    sizes = [
        [tuple(map(_places(each), of)) for of in (each.outputs if each.outputs is not None else sizes_of_outputs(each.graph))]
        for each in (one, other)
    ]
    return sizes[0] == sizes[1]


def _record(conditions: list[Condition], of: GuardedCode, labels: dict[Any, Any]) -> ShapeRecord:
    """The conditions in the symbols of the graph, where it has them."""
    places = {} if of.shapes is None else dict(of.shapes.places)
    symbols = {_name(label, bool(symbol.is_integer)): symbol for symbol, label in places.items()}
    told = [dataclasses.replace(each, expr=each.expr.xreplace(symbols)) for each in conditions]
    return ShapeRecord(tuple(told), {name: label for name, label in labels.items() if name not in symbols} | places)


def _with_guards(entry: _C.Entry, guarded: GuardedCode, region: RegionState) -> _C.Entry:
    """The entry under other guards."""
    assert entry.code is not None
    own = len(entry.code.co_freevars) - len(entry.extras)
    made = _C.Entry(
        watched(region, guarded),
        entry.code,
        entry.globals,
        entry.extras,
        tuple([types.CellType() for _ in range(own)]) or None,  # only counted
        needs_hook=entry.needs_hook,
        name=entry.name,
        qualname=entry.qualname,
        fetches=bool(guarded.manager.fetched),
        direct=direct_call(guarded, entry.extras),
    )
    return joined(region, made, guarded)


def _same_code(one: _C.Entry, other: _C.Entry) -> bool:
    """Whether the code runs the same graph on the same inputs, and does the same besides."""
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
    return guards.is_guardable_constant(a) and same_constant(b, a)


def _same_but_for_shapes(one: GuardedCode, other: GuardedCode) -> bool:
    mine, theirs = [[guard for guard in each.manager.guards if not isinstance(guard, guards.ShapeLine)] for each in (one, other)]
    tensors = [{guard for guard in each if isinstance(guard, guards.TensorMatch)} for each in (mine, theirs)]
    return tensors[0] == tensors[1] and implied_beside_shapes(mine, theirs) and implied_beside_shapes(theirs, mine)


# -- shapes ------------------------------------------------------------------------------------------------------------


def _name(label: Any, integer: bool = True) -> Any:
    return sympy.Symbol(label.name, integer=True) if integer else sympy.Symbol(label.name, real=True)


def _places(guarded: GuardedCode) -> Any:
    """Renames the symbols of a trace to the places where they are found."""
    places = {} if guarded.shapes is None else guarded.shapes.places
    names = {symbol: _name(label, bool(symbol.is_integer)) for symbol, label in places.items()}
    return lambda expr: expr.xreplace(names)


@dataclasses.dataclass(frozen=True, eq=False)
class _Shapes:
    """What the guards of an entry say of numbers, over symbols named after the places where these are found."""

    conditions: tuple[Condition, ...]
    constants: tuple[Any, ...]
    labels: dict[Any, Any]

    @classmethod
    def of(cls, entry: _C.Entry) -> _Shapes:
        guarded = entry.guarded_code
        if guarded.numbers is None:
            guarded.numbers = cls._read(guarded)
        found: _Shapes = guarded.numbers
        return found

    @classmethod
    def _read(cls, guarded: GuardedCode) -> _Shapes:
        record, rename = guarded.shapes, _places(guarded)
        found = dict(constants(guarded.manager.guards))
        static = tuple([sympy.Eq(_name(label), value, evaluate=False) for label, value in found.items()])
        labels = {_name(label): label for label in found}
        if record is None:
            return cls((), static, labels)
        conditions = tuple([dataclasses.replace(each, expr=rename(each.expr)) for each in record.conditions])
        return cls(conditions, static, labels | {rename(symbol): label for symbol, label in record.places.items()})

    @functools.cached_property
    def witness(self) -> dict[Any, int] | None:
        """Numbers for which the guards hold, if z3 tells some."""
        return solver.witness(self.holds(), facts=self.facts(self))

    @functools.cached_property
    def check(self) -> Callable[[dict[Any, int]], bool]:
        return Region(tuple([Condition(expr, Why.BASE) for expr in self.holds()])).check

    def holds_at(self, point: dict[Any, int]) -> bool | None:
        """Whether the guards hold for a call with these numbers; None if they do not say which it is."""
        if any(symbol not in point for expr in self.holds() for symbol in expr.free_symbols):
            return None
        return self.check(point)

    def may_hold_for(self, other: _Shapes) -> list[Condition]:
        """Which of the candidates are not refuted by a call that the other one serves."""
        point = other.witness
        return [each for each in self._candidates() if point is None or holds_at([each.expr], point) is not False]

    def holds(self) -> list[Any]:
        return [*(each.expr for each in self.conditions), *self.constants]

    def facts(self, other: _Shapes) -> list[Any]:
        """No size or stride is negative."""
        labels = self.labels | other.labels
        return [name >= 0 for name, label in labels.items() if isinstance(label, (TensorSizeSource, TensorStrideSource))]

    def implies(self, other: _Shapes) -> bool:
        """Proved; a number that `other` reads and this one says nothing of is anything."""
        return solver.implies(self.holds(), other.holds(), self.facts(other)) is True

    def union(self, other: _Shapes) -> list[Condition] | None:
        """Guards of either that both imply, if they say no more than that one or the other holds."""
        facts = self.facts(other)
        kept = [each for each in self.may_hold_for(other) if solver.implies(other.holds(), each.expr, facts)]
        kept += [each for each in other.may_hold_for(self) if solver.implies(self.holds(), each.expr, facts)]
        kept = list({each.expr: each for each in kept}.values())
        either = [sympy.And(*self.holds()), sympy.And(*other.holds())]
        given = [*self.constants, *(each.expr for each in kept)]
        proved = solver.satisfy(given, facts=facts, misses=either).status == "unsat"
        if not proved:
            return None
        grouped = group([each.expr for each in kept])
        return [dataclasses.replace(kept[line.members[0]], expr=line.expr) for line in grouped]

    def _candidates(self) -> list[Condition]:
        """The conjuncts of the guards, and the bounds that an equality implies."""
        found = []
        for each in self.conditions:
            found += [dataclasses.replace(each, expr=part) for part in sympy.And.make_args(each.expr)]
        for each in list(found):
            if isinstance(each.expr, sympy.Eq) and each.expr.lhs.is_Symbol and each.expr.rhs.is_Integer:
                term, value = each.expr.args
                found += [dataclasses.replace(each, expr=bound) for bound in (term >= value, term <= value)]
        return found


def holds_at(exprs: Iterable[Any], point: dict[Any, int]) -> bool | None:
    """Whether conditions hold for these numbers, computed as check_fn would; None where one is not known."""
    try:
        return all(bool(evaluate(expr, point)) for expr in exprs)
    except KeyError:
        return None
    except (ArithmeticError, ValueError):  # a guard that raises is a miss
        return False


def _line(condition: Condition, labels: dict[Any, Any]) -> guards.ShapeLine:
    def render(name: Any) -> str:
        return python_source(condition.expr, {symbol: name(labels[symbol]) for symbol in condition.expr.free_symbols})

    return guards.ShapeLine.of(render, condition.recorded if condition.why is not Why.BASE else None, condition.where)
