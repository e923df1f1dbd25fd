"""CheckFunctionManager: from the guards of a trace to a `check_fn`, its text for people, and the reason of a miss."""

from __future__ import annotations

import copy
import dataclasses
import functools
import sys
import traceback
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import CellType, CodeType
from typing import Any

from tracer import _C
from tracer.bytecode.slots import argument_slots
from tracer.guards.base import Guard, Mismatch, shown
from tracer.guards.checklist import ListBuilder, with_watchers
from tracer.guards.code import AddedGroup, CheckCode, builtins_of, steady_slots
from tracer.guards.identity import Distinct
from tracer.guards.on_demand import OnDemand, Unprinted, define
from tracer.guards.order import Stage, arrange
from tracer.guards.references import ObjectRef
from tracer.guards.state import GlobalStateMatch
from tracer.guards.steady import Grouping
from tracer.guards.tensors import TensorMatch
from tracer.locations import UserLocation
from tracer.sources.base import CLOSURE as CLOSURE_SLOT
from tracer.sources.base import FrameValues, Source
from tracer.sources.containers import ItemSource
from tracer.sources.roots import ArgumentSource, LocalSource


@dataclass(frozen=True)
class GuardFailure:
    """The first guard that did not hold, in words. `guard` is None where an object that was guarded has died."""

    guard: Guard | None
    message: str
    expected: str
    seen: str

    @property
    def where(self) -> UserLocation | None:
        """The user's line that made the guard."""
        return self.guard.where if self.guard is not None else None

    def __str__(self) -> str:
        """One line: what failed, with the value seen where the sentence does not tell it."""
        if not self.seen or self.seen in self.message:
            return self.message
        return f"{self.message}  (seen {self.seen})"

    def without_data(self) -> GuardFailure:
        """The same without values that the program computes with: where the guard's words may show such, what it is about."""
        if self.guard is None or not self.guard.shows_data():
            return self
        names = " and ".join(source.name for source in self.guard.sources())
        return GuardFailure(self.guard, f"{names or 'a setting'} is not what it was ({self.guard.kind})", "", "")

    def instead(self) -> str:
        """` (the nearest covered call has torch.float32 in place of torch.float64)`, of a call whose sizes are covered; empty
        where the guard compares nothing."""
        if self.expected in ("", "true") or not self.seen:
            return ""
        return f" (the nearest covered call has {self.expected} in place of {self.seen})"


class CheckFunctionManager:
    """Holds the guards of one entry. Guarded objects are watched: when one dies, `on_invalid` is called once."""

    def __init__(
        self,
        guards: Iterable[Guard],
        code: CodeType,
        globals: dict[str, Any],
        on_invalid: Callable[[], None] | None = None,
        *,
        builtins: dict[str, Any] | None = None,
        fetched: tuple[Source, ...] = (),
    ) -> None:
        """`fetched`: tensors that check_fn returns as a tuple, in place of True; see `fetchable`."""
        self._code_ref = weakref.ref(code)
        self.fetched = fetched
        self.globals = globals
        self._builtins = builtins
        self._stages = arrange(guards)
        self._shares = False
        self.died: str | None = None  # the guarded object that did, in words
        self._on_invalid = on_invalid
        self.check_fn: Any = self._define()
        self._watched = self._referred_to()
        self._watches = self._watch()

    @property
    def code(self) -> CodeType:
        """That of the guarded frame. It is not kept alive: with it, its entries go."""
        code = self._code_ref()
        if code is None:
            raise ReferenceError("The code that these guards belong to has been freed.")
        return code

    def is_for(self, code: CodeType, globals: dict[str, Any]) -> bool:
        """Whether these are guards of a frame of this code with these globals."""
        return self._code_ref() is code and self.globals is globals

    # ---- text

    def _code(self, args: tuple[Any, ...], closure: tuple[CellType, ...] | None) -> tuple[CheckCode, list[tuple[Guard, ...]]]:
        """What explanations run: a step for each guard, but for groups that hold now and have most guards of a model."""
        code = CheckCode(self.code, self.globals, self._builtins)
        slots = dict(zip((*argument_slots(self.code), CLOSURE_SLOT), (*args, closure)))
        known: set[int] = set()
        for printer in self._printers:
            held = printer.held_now(slots)
            if held is not None:
                code.add_held(printer, held)
                leaves = set(printer.leaves)
                known.update(map(id, printer.guards))
                known.update(id(guard) for stage in self._stages for guard in stage.tensors if guard.source in leaves)
        steps = [step for stage in self._stages for step in code.add(stage.without(known))]
        return code, steps

    def holds(self, result: Any) -> bool:
        """Whether a result of check_fn means that the guards hold."""
        return result is True if not self.fetched else type(result) is tuple

    def _print(self) -> tuple[CheckCode, str]:
        """check_fn as Python text. It asks the watcher of each steady group before it checks the group's guards again."""
        code, rest, _ = self._print_groups()
        return code, _finished(code, rest, self.fetched)

    def _print_groups(self) -> tuple[CheckCode, list[Stage], list[AddedGroup]]:
        """The beginning of check_fn, with the watchers of the groups; the guards that are still to be printed; and the groups.
        Nothing keeps these: their plans are larger than anything else of an entry."""
        code = CheckCode(self.code, self.globals, self._builtins)
        builtins = functools.partial(builtins_of, self.globals, self._builtins)
        grouping = Grouping(self.code, steady_slots(self.code), self.globals, builtins)
        groups = grouping.groups(self.guards, self.fetched)
        placed = {each for group in groups for each in group.placed}
        state = [guard for guard in self.guards if not guard.sources()]
        placed.update(map(id, state))
        distinct = {source for guard in self.guards if isinstance(guard, Distinct) for source in guard.group}
        _exhaust(code.add(Stage(state)))
        added = [code.add_group(group, distinct) for group in groups]
        return code, [stage.without(placed) for stage in self._stages], added

    def _define(self) -> Callable[..., Any]:
        """check_fn itself: a checklist for C, with a function for the guards that C cannot test and one for all guards."""
        code, self._unprinted, added = self._print_groups()
        self._printers = code.printers
        filename = f"<check_fn of {self.code.co_qualname}>"
        finish = functools.partial(_finished, code, self._unprinted, self.fetched)
        whole = OnDemand(Unprinted(finish, code.namespace), "check_fn", filename)
        unchanged = [value for value in code.namespace.values() if type(value) is _C.Unchanged]
        builder = ListBuilder(self.code, self.globals)
        if not all(builder.take_group(*group) for group in added):
            return whole.printed_now()
        placed = {each for group, *_ in added for each in group.placed}
        left = [guard for guard in self.guards if id(guard) not in placed]
        taken = {id(guard) for guard in left if builder.take(guard, *unchanged)}
        rest = None
        if len(taken) < len(left):
            rest_code = CheckCode(self.code, self.globals, self._builtins)
            known = placed | taken
            rest_code.assume(guard for guard in self.guards if id(guard) in known)
            for stage in self._stages:
                _exhaust(rest_code.add(stage.without(known)))
            rest = define((rest_code.text(), rest_code.namespace), "check_fn", filename)
            code.look_in(rest_code.found)  # what C has taken is not found by name
        return builder.build(self.fetched or None, rest, whole)

    @property
    def guards(self) -> tuple[Guard, ...]:
        """All guards in the order in which they are checked."""
        return tuple([guard for stage in self._stages for guard in [*stage.guards, *stage.tensors]])

    def share(self, other: CheckFunctionManager) -> None:
        """Takes guards of another entry in place of equal ones, once: these need no memory then, and are compared by identity."""
        if self._shares:
            return
        self._shares = True
        known = {guard: guard for guard in other.guards}
        lists = [guards for stage in [*self._stages, *self._unprinted] for guards in (stage.guards, stage.tensors)]
        for guards in [*lists, *[printer.guards for printer in self._printers]]:
            for index, guard in enumerate(guards):
                same = known.get(guard, guard)
                if same.where == guard.where:
                    guards[index] = same  # type: ignore[call-overload]  # one list of guards or the other

    @property
    def exec_text(self) -> str:
        """The Python source of check_fn, with what C does in its place written out."""
        code, text = self._print()
        return "\n".join([*[look.text for look in code.looks], text])

    @property
    def source_text(self) -> str:
        """The guards in terms of `L['a']` and `G['torch']`, a line each."""
        return "\n".join(dict.fromkeys(line for guard in self.guards for line in guard.lines()))

    def described(self) -> list[tuple[str, Guard]]:
        """(line, guard) for each line of `source_text`."""
        lines: dict[str, Guard] = {}
        for guard in self.guards:
            for line in guard.lines():
                lines.setdefault(line, guard)
        return list(lines.items())

    # ---- death of guarded objects

    @property
    def valid(self) -> bool:
        return self.died is None

    def when_invalid(self, callback: Callable[[], None]) -> None:
        """Calls back once when a guarded object dies; at once if one has died already."""
        self._on_invalid = callback
        if self.died is not None:
            callback()

    def anew(self) -> CheckFunctionManager:
        """The same guards for another object than the one that they are asked about: with watchers of its own, which remember
        how that one is."""
        made = copy.copy(self)
        watchers = [printer.steady for printer in self._printers if printer.steady is not None]
        fresh = {id(steady): steady.anew() for steady in watchers}
        made._printers = [
            dataclasses.replace(printer, steady=None if printer.steady is None else fresh[id(printer.steady)])
            for printer in self._printers
        ]
        is_list = type(self.check_fn) is _C.Checklist
        whole = (self.check_fn.whole if is_list else self.check_fn).with_objects(fresh)
        made.check_fn = with_watchers(self.check_fn, fresh, whole) if is_list else whole
        made.died, made._on_invalid = None, None
        made._watches = made._watch()
        return made

    def _referred_to(self) -> list[tuple[ObjectRef, Source | None]]:
        """The objects whose death makes the guards invalid, and where each was found."""
        watched: dict[int, tuple[ObjectRef, Source | None]] = {}
        for guard in self.guards:
            place = next(iter(guard.sources()), None)
            for reference in guard.references():
                if not reference.bound and (reference.id not in watched or watched[reference.id][1] is None):
                    watched[reference.id] = reference, place
        return list(watched.values())

    def _watch(self) -> list[weakref.ref[Any]]:
        own = weakref.ref(self)
        made = []
        for reference, place in self._watched:
            obj = reference.get()
            if obj is None:
                self._object_died(reference, place)
            else:
                made.append(weakref.ref(obj, _notify(own, reference, place)))
        return made

    def _object_died(self, reference: ObjectRef, place: Source | None) -> None:
        """`place`: where it was found, if any guard read it there."""
        if self.died is None:
            self.died = repr(reference) if place is None else f"{place.name} ({reference!r})"
            if self._on_invalid is not None:
                self._on_invalid()

    # ---- explanations

    def frame_values(self, args: tuple[Any, ...], closure: tuple[CellType, ...] | None = None) -> FrameValues:
        """The values that sources are read from, given the argument slots of a call."""
        locals_ = dict(zip(argument_slots(self.code), args, strict=True))
        return FrameValues.of(self.code, locals_, self.globals, closure, self._builtins)

    def explain(self, args: tuple[Any, ...], closure: tuple[CellType, ...] | None = None) -> GuardFailure | None:
        """The first guard that fails for these argument slots; None if all hold."""
        if self.died is not None:
            return gone(self.died)
        code, steps = self._code(args, closure)
        filename = f"<explained check_fn of {self.code.co_qualname}>"
        explain_fn = define((code.text(str), code.namespace), "check_fn", filename)
        positional = (*args, closure) if self.code.co_freevars else args
        try:
            failed = explain_fn(*positional)
        except Exception as error:
            return self._unreadable(error, _failing_step(error, filename, code), steps)
        return None if failed is True else self._failure(steps[failed], self.frame_values(args, closure))

    @functools.cached_property
    def _states(self) -> tuple[GlobalStateMatch, ...]:
        return tuple([guard for stage in self._stages[:1] for guard in stage.guards if isinstance(guard, GlobalStateMatch)])

    @functools.cached_property
    def _argument_tensors(self) -> tuple[TensorMatch, ...]:
        """The guards on tensors that are arguments, or items of arguments."""
        return tuple([guard for stage in self._stages for guard in stage.tensors if _is_passed(guard.source)])

    def explain_arguments(self, args: tuple[Any, ...], closure: tuple[CellType, ...] | None = None) -> list[GuardFailure]:
        """The guards that fail on torch's state and on the tensors among the arguments, which are compared in microseconds."""
        failures = [GuardFailure(guard, *guard.explain()) for guard in self._states if not guard.snapshot.check()]
        values = self.frame_values(args, closure)
        for guard in self._argument_tensors:
            try:
                seen = guard.source.get(values)
            except Exception as error:
                failures.append(_cannot_read(guard, error))
                continue
            if not guard.holds(seen):
                failures.append(GuardFailure(guard, *guard.explain(seen)))
        return failures

    def groups_hold(self, args: tuple[Any, ...], closure: tuple[CellType, ...] | None = None) -> bool:
        """Whether what the guards read of long-lived objects, such as a model, is known to be what it was."""
        slots = dict(zip((*argument_slots(self.code), CLOSURE_SLOT), (*args, closure)))
        return all(printer.held_now(slots) is not None for printer in self._printers)

    def _failure(self, guards: tuple[Guard, ...], values: FrameValues) -> GuardFailure:
        """The words of the guard that fails among those of one step."""
        for guard in guards:
            try:
                seen = [source.get(values) for source in guard.sources()]
            except Exception as error:
                return _cannot_read(guard, error)
            if isinstance(guard, TensorMatch) and len(guards) > 1 and guard.holds(seen[0]):
                continue
            return GuardFailure(guard, *guard.explain(*seen))
        return GuardFailure(guards[0], *Mismatch("tensors did not match", "", ""))

    def _unreadable(self, error: Exception, step: int, steps: list[tuple[Guard, ...]]) -> GuardFailure:
        return _cannot_read(steps[step][0], error) if step < len(steps) else GuardFailure(None, str(error), "", "")


def gone(died: str) -> GuardFailure:
    return GuardFailure(None, f"{died} was guarded and is gone", "alive", "gone")


def _is_passed(source: Source) -> bool:
    while type(source) is ItemSource and source.base is not None:
        source = source.base
    return type(source) is LocalSource or type(source) is ArgumentSource


def _cannot_read(guard: Guard, error: Exception) -> GuardFailure:
    what = f"{type(error).__name__}: {shown(error.args[0]) if error.args else ''}"
    names = " and ".join(source.name for source in guard.sources())
    return GuardFailure(guard, f"{names} could not be read ({what})", " and ".join(guard.lines()), what)


def _failing_step(error: Exception, filename: str, code: CheckCode) -> int:
    """The step whose line raised: line 1 is the `def`."""
    for frame, lineno in traceback.walk_tb(error.__traceback__):
        if frame.f_code.co_filename == filename:
            return code.step_of_line[lineno - 2]
    return len(code.step_of_line)


def _finished(code: CheckCode, rest: list[Stage], fetched: tuple[Source, ...]) -> str:
    """The text of check_fn, whose groups are printed."""
    for stage in rest:
        _exhaust(code.add(stage))
    rest.clear()
    return code.text(result=f"({''.join(f'{code.read(source)}, ' for source in fetched)})" if fetched else "True")


def _exhaust(steps: Iterable[Any]) -> None:
    for _ in steps:
        pass


def _notify(
    manager: weakref.ref[CheckFunctionManager], reference: ObjectRef, place: Source | None
) -> Callable[[weakref.ref[Any]], None]:
    is_finalizing = sys.is_finalizing  # at the end, when the globals of modules may be gone

    def object_died(_: weakref.ref[Any]) -> None:
        found = manager()
        if found is not None and not is_finalizing():
            found._object_died(reference, place)

    return object_died
