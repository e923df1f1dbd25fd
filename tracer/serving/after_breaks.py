"""What follows a graph break: which calls of resume functions come from the calls that an entry serves, and whether an entry
serves each of them.

CPython runs the instruction at the break. What it may change is known if it is a branch on data or a call of one of a few
functions. After any other instruction nothing is claimed. See docs/decisions/shape_domains.md.
"""

from __future__ import annotations

import builtins
import contextlib
import dataclasses
import itertools
import logging
import os
import time
import types
import warnings
from collections.abc import Callable
from typing import Any

import torch

from shapes.domain import Domain, Point, Variable, point_text
from shapes.regions import find_uncovered
from tracer import _C, metrics
from tracer.codegen.handover import (
    Break,
    Computed,
    Handed,
    Items,
    Known,
    Method,
    Number,
    Read,
    Result,
    Resumption,
    Return,
    Unknown,
)
from tracer.errors import TracerError
from tracer.guards.base import Guard
from tracer.guards.memory import FillsStorage, MemoryApart, MemoryShared
from tracer.guards.tensors import TensorMatch
from tracer.inside import graph_break
from tracer.locations import UserLocation
from tracer.runtime import upkeep
from tracer.runtime.guarded_code import entries_of
from tracer.runtime.region_state import RegionState
from tracer.runtime.thread_state import ThreadState
from tracer.runtime.tracing_lock import TRACING
from tracer.serving.handed_calls import AnyCalls, Bound, HandedCalls, Making, NotFollowed, Origin
from tracer.serving.readiness import Probe, probes_of
from tracer.serving.regions import UNKNOWN, Served, failing_guard, like_example, served
from tracer.sources.base import Source

CHECKED = 8  # sampled shapes for which what is proved of a resume function is compared with its check functions
DEEPEST = 24  # how many calls of resume functions are followed within one another
_LOGGING = tuple(getattr(logging.Logger, name) for name in ("debug", "info", "warning", "error", "critical", "log"))
#: functions that change nothing that the program reads, and return None
HARMLESS: tuple[Any, ...] = (builtins.print, graph_break, warnings.warn, time.sleep, *_LOGGING)
_READS_DATA = frozenset("item tolist __bool__ __int__ __float__ __repr__ __str__".split())  # methods of tensors that read data
_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.Size, torch.dtype, torch.device, int, float, bool, str, type(None))


@dataclasses.dataclass(frozen=True, eq=False)
class Behind:
    """A resume function after a break, with the entries that serve its calls. `entries` is empty where CPython runs it."""

    function: str
    code: types.CodeType
    location: UserLocation | None  # of the break
    domain: Domain
    entries: tuple[Served, ...]
    probes: tuple[Probe, ...] = ()
    notes: tuple[str, ...] = ()  # what is not covered

    @property
    def where(self) -> str:
        """The file and line of the break."""
        return "a break" if self.location is None else f"{os.path.basename(self.location.filename)}:{self.location.lineno}"

    @property
    def stands(self) -> bool:
        return all(each.entry.valid for each in self.entries)

    def with_entries(self, other: Behind) -> Behind:
        """With those of another one, of the same function."""
        have = {id(each.entry) for each in self.entries}
        entries = (*self.entries, *(each for each in other.entries if id(each.entry) not in have))
        probes = (*self.probes, *(probe for probe in other.probes if id(probe.entry) not in have))
        return dataclasses.replace(self, entries=entries, probes=probes, notes=tuple(dict.fromkeys((*self.notes, *other.notes))))

    def lines(self) -> list[str]:
        """For people: the function, and what each entry serves."""
        head = f"after {self.where}: {self.function}"
        if not self.entries:
            return [f"{head}, which CPython runs"]
        return [head, *[f"  {number}: {each.region.text(self.domain)}" for number, each in enumerate(self.entries)]]


@dataclasses.dataclass(frozen=True, eq=False)
class _Shapes:
    """The shapes for which a resume function is called, and one of them. `wide`: a larger set of shapes, for which the arguments
    of the call would be the same expressions. Often the entries serve all of these, which takes fewer questions to the
    solver."""

    domain: Domain
    witness: Point
    wide: Domain

    def within(self, each: Served) -> _Shapes:
        """Those of the shapes that an entry serves."""
        more = [condition.expr for condition in each.region.conditions if condition.expr not in self.domain.relations]
        assert each.witness is not None  # it serves calls
        narrowed = dataclasses.replace(self.domain, relations=(*self.domain.relations, *dict.fromkeys(more)))
        return _Shapes(narrowed, dict(each.witness), self.wide)


@dataclasses.dataclass(frozen=True, eq=False)
class _Outcome:
    """One way in which a resume function ends. `unknown`: why it is not known what the function does before it ends; else
    empty."""

    shapes: _Shapes
    value: Bound
    state: ThreadState
    unknown: str = ""


Make = Callable[[Callable[[], Any]], Any]  # runs a trace, if one may be made now; raises OutOfBudget else


class OutOfBudget(NotFollowed):
    """The limits of `precompile` (max_entries, max_seconds) are reached."""


class Follower:
    """Follows the calls that entries serve through their breaks."""

    def __init__(self, state: RegionState, rlimit: int, make: Make | None = None) -> None:
        """`make`: None if nothing is to be traced."""
        self.state, self.rlimit, self.make = state, rlimit, make
        self.traced = 0
        self._found: dict[types.CodeType, Behind] = {}
        self._notes: dict[str, None] = {}
        self._known: dict[
            Any, tuple[tuple[int, ...], list[Served]]
        ] = {}  # of calls: the entries there were, and what each serves
        self._ended: dict[Any, tuple[list[_Outcome], tuple[Behind, ...]]] = {}  # of calls: how they end
        self._cut = 0  # how often a call was like one that is being followed: a loop
        self._open: list[tuple[Any, Domain]] = []  # the calls that are being followed

    def begin(self) -> None:
        """Called before the entries of the decorated function are followed, all of them, once more."""
        self._ended = {}

    def behind(self, each: Served, calls: AnyCalls) -> tuple[Behind, ...]:
        """What is after the break of an entry, for all calls that it serves. Raises NotFollowed if something there is not
        covered, or not known."""
        self._found, self._notes = {}, {}
        self._after_break(each, calls, _Shapes(calls.domain, calls.example, calls.domain).within(each))
        found = list(self._found.values())
        if found:
            found[0] = dataclasses.replace(found[0], notes=tuple(self._notes))
        return tuple(found)

    # -- one entry -----------------------------------------------------------------------------------------------

    def _after_break(self, each: Served, calls: AnyCalls, shapes: _Shapes) -> list[_Outcome]:
        """How the frame ends whose entry breaks, for shapes that the entry serves."""
        described = each.entry.guarded_code.described
        if not isinstance(described, Break):
            raise NotFollowed("no shapes were declared when the entry was made: what it passes on is not known")
        if not self.state.backend.runs_as_written:
            raise NotFollowed(f"the strides of results of the backend {self.state.backend.name!r} are not known")
        origin, shapes = _origin(each, calls, shapes, described.ranges, described.state[1])
        if described.changed:
            raise NotFollowed(
                f"the program changes {', '.join(described.changed)} before the break, and later calls may read that"
            )
        state = ThreadState(*described.state)
        reason, result = self._effect(described, origin)
        return self._go_on(described, len(described.frames) - 1, origin, shapes, state, Bound(result, origin), reason)

    def _go_on(
        self,
        at: Break,
        depth: int,
        origin: Origin,
        shapes: _Shapes,
        state: ThreadState,
        result: Bound,
        unknown: str,
    ) -> list[_Outcome]:
        """How the frame at a depth, and those around it, end. `unknown`: why it is not known what has run before; else empty."""
        outcomes = []
        for way in at.frames[depth]:
            dispatcher = _dispatcher(origin.served.entry, way.name)
            if way.way == "handler":
                where = "what breaks the graph" if at.where is None else at.where.with_code()
                note = f"calls in which {where} raises: {dispatcher.function.__qualname__}, its handler, is not compiled"
                self._notes[note] = None
                continue
            if unknown and not self._is_left_to_cpython(dispatcher.function):
                raise NotFollowed(unknown)
            for outcome in self._reached(dispatcher.function, way, origin, shapes, state, result, at.where):
                if depth == 0:
                    outcomes.append(outcome)
                else:
                    outcomes += self._go_on(at, depth - 1, origin, outcome.shapes, outcome.state, outcome.value, outcome.unknown)
        return outcomes

    def _effect(self, at: Break, origin: Origin) -> tuple[str, Handed]:
        """Why it is not known what the instruction at the break does (empty if it is), and what it gives."""
        making = Making(origin.calls.example)
        for function in at.calls:
            if not any(function is known or getattr(function, "__func__", None) is known for known in HARMLESS):
                return f"{_name(function)} is called before the break, and what it changes is not known", Unknown("")
        if at.opname.startswith(("POP_JUMP", "JUMP_IF")):
            value = making.value(Bound(at.operands[-1], origin))
            plain = type(value) in _PLAIN or isinstance(at.operands[-1], Number)
            return "" if plain else f"bool() of an object of {_name(type(value))} may run code of the program", Unknown("")
        if at.opname not in ("CALL", "CALL_KW") or not at.operands:
            return f"CPython runs {at.opname} at the break, and what it changes is not known", Unknown("")
        function, *args = at.operands
        if isinstance(function, Method):
            args = [function.owner, *args]
            if function.name in _READS_DATA and _is_plain(function.owner, making, origin):
                return "", Unknown(f"what {function.name}() gives")
            function = Unknown(function.name) if function.function is None else function.function
        called = making.value(Bound(function, origin))
        called = getattr(called, "__func__", called)
        if not any(called is known for known in HARMLESS):
            return f"CPython calls {_name(called)} at the break, and what it changes is not known", Unknown(
                f"what {_name(called)} gives"
            )
        if called is builtins.print and not all(_is_plain(arg, making, origin) for arg in args):
            return "print() of an object may run code of the program", Unknown("")
        return "", Known(None)

    def _is_left_to_cpython(self, function: types.FunctionType) -> bool:
        return function.__code__ in self.state.left_to_cpython or self.state.region.is_skipped(function.__code__)

    # -- one resume function -------------------------------------------------------------------------------------

    def _reached(
        self,
        function: types.FunctionType,
        way: Resumption,
        origin: Origin,
        shapes: _Shapes,
        state: ThreadState,
        result: Bound,
        where: UserLocation | None,
    ) -> list[_Outcome]:
        """How a resume function ends that is called so."""
        domain = shapes.domain
        unknown = _Outcome(
            shapes,
            Bound(Unknown(f"what {function.__qualname__} returns"), origin),
            state,
            f"{function.__qualname__} is not compiled, and what it does is not known",
        )
        if self._is_left_to_cpython(function):
            self._note(Behind(function.__qualname__, function.__code__, where, domain, ()))
            return [unknown]
        values = [result if isinstance(arg, Result) else Bound(arg, origin) for arg in way.args]
        cells = [Bound(cell, origin) for cell in way.cells]
        with state.entered():
            calls = HandedCalls(function, shapes.wide, shapes.witness, values, cells, state)
            known = calls.signature()
            if any(known == other and set(wide.relations) <= set(domain.relations) for other, wide in self._open):
                self._cut += 1
                return []  # a loop: however it ends, it does so in the calls that are being followed
            if len(self._open) >= DEEPEST:
                raise NotFollowed(f"more than {DEEPEST} breaks follow one another")
            try:
                entries = self._covered(calls, (known, frozenset(shapes.wide.relations)))
            except OutOfBudget:
                raise
            except (NotFollowed, TracerError):
                calls = HandedCalls(function, domain, shapes.witness, values, cells, state)
                entries = self._covered(calls, (known, frozenset(domain.relations)))
            if entries is None:
                self._note(Behind(function.__qualname__, function.__code__, where, domain, ()))
                return [unknown]
            self._note(
                Behind(function.__qualname__, function.__code__, where, calls.domain, tuple(entries), probes_of(entries, calls))
            )
            return self._end_of(entries, calls, shapes, known, unknown)

    def _end_of(
        self, entries: list[Served], calls: HandedCalls, shapes: _Shapes, signature: Any, unknown: _Outcome
    ) -> list[_Outcome]:
        """How the calls end that these entries serve. Calls alike are followed once."""
        key = signature, frozenset(calls.domain.relations)
        if key not in self._ended:
            outer, self._found, cut = self._found, {}, self._cut
            self._open.append((signature, calls.domain))
            try:
                outcomes = [outcome for each in entries for outcome in self._ends(each, calls, shapes, unknown)]
            finally:
                self._open.pop()
                mine, self._found = self._found, outer
            self._note(*mine.values())
            if self._cut > cut and self._open:  # how it ends was not asked to the end
                return outcomes
            self._ended[key] = outcomes, tuple(mine.values())
        outcomes, noted = self._ended[key]
        self._note(*noted)
        return outcomes

    def _ends(self, each: Served, calls: HandedCalls, shapes: _Shapes, unknown: _Outcome) -> list[_Outcome]:
        """How the frame ends in the calls that one of its entries serves."""
        narrowed = _Shapes(calls.domain, calls.example, shapes.wide).within(each)
        guarded = each.entry.guarded_code
        if guarded.broken:
            return self._after_break(each, calls, narrowed)
        described = guarded.described
        if not isinstance(described, Return):
            return [dataclasses.replace(unknown, shapes=narrowed)]
        origin, narrowed = _origin(each, calls, narrowed, described.ranges, described.state[1])
        changes = (
            f"the program changes {', '.join(described.changed)}, and later calls may read that" if described.changed else ""
        )
        return [_Outcome(narrowed, Bound(described.value, origin), ThreadState(*described.state), changes)]

    def _note(self, *found: Behind) -> None:
        """Notes what was found of resume functions, beside what is known of them."""
        for each in found:
            before = self._found.get(each.code)
            self._found[each.code] = each if before is None else before.with_entries(each)

    def _covered(self, calls: HandedCalls, key: Any) -> list[Served] | None:
        """The entries of a resume function, which serve all these calls; None if CPython runs it. `key`: of the calls."""
        function = calls.function
        known: dict[int, Served] = {}
        while not self._is_left_to_cpython(function):
            live = entries_of(self.state.region, function.__code__, function.__globals__)
            made = tuple(map(id, live))
            if key in self._known and self._known[key][0] == made:
                return self._known[key][1]
            known = {id(entry): known.get(id(entry)) or served(entry, calls) for entry in live}
            entries = [each for each in known.values() if each.refused is None]
            if any(each.refused == UNKNOWN and each.kind == "broken" for each in known.values()):
                raise NotFollowed(f"{function.__qualname__}: {UNKNOWN}")
            for each in entries:
                reason = not_understood(each, calls)
                if reason is not None:
                    raise NotFollowed(f"{function.__qualname__}: {reason}")
            found = find_uncovered(calls.domain, [each.region for each in entries], rlimit=self.rlimit)
            if found.status == "unsat":
                _verify(calls, entries)
                self._known[key] = made, entries
                return entries
            if found.status != "sat" or found.witness is None:
                raise NotFollowed(f"the solver cannot tell whether every call of {function.__qualname__} has an entry")
            self._trace(calls, like_example(calls.domain, calls.example, [each.region for each in entries], found.witness))
        return None

    def _trace(self, calls: HandedCalls, point: Point) -> None:
        """Makes the entry for one of the calls."""
        name = calls.function.__qualname__
        if self.make is None:
            raise NotFollowed(f"{name} has no entry for {point_text(point)}")
        function, slots = calls.call_at(point)
        declared = calls.declared(slots, function)
        breaks: list[Any] = []
        try:
            with self.state.reporting_breaks_to(breaks.append):
                entry = self.make(lambda: self.state.compile_entry_ahead(function, slots, declared))
        except TracerError as error:
            raise NotFollowed(f"{name} cannot be traced for {point_text(point)}: {error}") from None
        self.traced += 1
        metrics.counters["serving"]["precompiled"] += 1
        if entry is _C.SKIP:
            self.state.region.skip(function.__code__)
            return
        made = served(entry, calls)
        reason = not_understood(made, calls) or made.refused
        if reason is None and not made.region.check(point):
            reason = f"the entry that was made for {point_text(point)} does not serve it"
        if reason is not None:
            raise NotFollowed(f"{name}: {reason}")
        with TRACING:
            entry.guarded_code.pinned = True
            self.state.region.install(function.__code__, function.__globals__, entry)
            upkeep.retire_and_evict(self.state, function, entry)


def not_understood(each: Served, calls: HandedCalls) -> str | None:
    """Why the guards of an entry do not tell which of the calls it serves; None if they do."""
    manager = each.entry.guarded_code.manager
    values = manager.frame_values(calls.slots, calls.function.__closure__)
    for guard in manager.guards:
        sources = guard.sources()
        for source in sources:
            what = next((what for place, what in calls.unknown.items() if _leads_through(source, place)), None)
            if what is not None:
                return f"it depends on {what}, which is known only at run time ({guard.lines()[0]})"
        if isinstance(guard, TensorMatch) and guard.source not in calls.layouts:
            with contextlib.suppress(Exception):
                if id(guard.source.get(values)) in calls.making.made:
                    return f"what is known of {guard.source.name} does not say whether its guard holds ({guard.lines()[0]})"
        shared = _not_told_apart(guard, calls)
        if shared is not None:
            return f"whether {' and '.join(shared)} share memory is known only at run time ({guard.lines()[0]})"
    return None


def _not_told_apart(guard: Guard, calls: HandedCalls) -> list[str] | None:
    """The tensors of which a guard asks whether they share memory, if that is not known of calls."""
    if isinstance(guard, FillsStorage):
        lies = calls.memory.get(guard.source)
        return [guard.source.name, "others"] if lies is not None and lies.computed else None
    if not isinstance(guard, (MemoryApart, MemoryShared)):
        return None
    for one, other in itertools.combinations(dict.fromkeys(guard.sources()), 2):
        if calls.may_share(one, other):
            return [one.name, other.name]
    return None


def _verify(calls: HandedCalls, entries: list[Served]) -> None:
    """Compares what was proved with the check functions, at sampled shapes."""
    for point in filter(calls.is_small, calls.domain.samples(CHECKED)):
        for each in entries:
            failure = failing_guard(each.entry, calls, point) if each.region.check(point) else None
            if failure is not None:
                raise NotFollowed(f"{calls.function.__qualname__} does not serve {point_text(point)}: {failure}")


def _origin(each: Served, calls: AnyCalls, shapes: _Shapes, ranges: Any, inference: bool) -> tuple[Origin, _Shapes]:
    """Where an entry hands something over, and the shapes with a variable for each number that depends on data."""
    domains, witness, places = [shapes.domain, shapes.wide], dict(shapes.witness), dict(each.places)
    taken = {variable.name for variable in shapes.domain.variables}
    for symbol, (low, high) in ranges.items():
        name = next(name for number in range(len(taken) + 1) if (name := f"{symbol.name}_{number}") not in taken)
        bounds = [None if abs(bound) > 1 << 62 else int(bound) for bound in (low, high)]
        made = Variable(name, min=-(1 << 62) if bounds[0] is None else bounds[0], max=bounds[1])
        taken.add(name)
        place = f"the number {name} of data"
        domains = [
            dataclasses.replace(
                domain,
                variables=(*domain.variables, made),
                places={**domain.places, place: made.symbol},
                ints=domain.ints | {place},
            )
            for domain in domains
        ]
        places[symbol] = made.symbol
        witness[made.symbol] = min(max(made.smallest, 2), made.largest)
    return Origin(calls, each, places, inference), _Shapes(domains[0], witness, domains[1])


def _dispatcher(entry: _C.Entry, name: str) -> Any:
    code = entry.code
    assert code is not None  # the entry breaks
    return entry.extras[code.co_freevars.index(name) - len(code.co_freevars)].cell_contents


def _leads_through(source: Source | None, place: Source) -> bool:
    while source is not None and source != place:
        source = source.base
    return source is not None


def _is_plain(handed: Handed, making: Making, origin: Origin) -> bool:
    """Whether no code of the program runs where CPython reads or prints a value."""
    if isinstance(handed, (Computed, Number)):
        return True
    if isinstance(handed, Items):
        return all(_is_plain(item, making, origin) for item in handed.items)
    return isinstance(handed, (Known, Read)) and type(making.value(Bound(handed, origin))) in _PLAIN


def _name(called: Any) -> str:
    return str(getattr(called, "__qualname__", None) or type(called).__qualname__)


__all__ = ["Behind", "Follower", "NotFollowed", "OutOfBudget", "not_understood"]
