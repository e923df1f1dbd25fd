"""The operations that produced a set, recorded so that the output code can repeat them.

The iteration order of a set depends on its hash table, and the table on every operation ever applied to the set:
`{0, 1, 2, 7, 16}` and a copy of it iterate differently. So the output code does not build a set from its elements, but
repeats the operations of the program.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from tracer.graph_breaks import unsupported
from tracer.protocol.variable import VariableTracker

if TYPE_CHECKING:
    from tracer.protocol.tracer import ValueCodegen

_IN_PLACE = frozenset(
    ["add", "discard", "pop", "clear", "update", "intersection_update", "difference_update", "symmetric_difference_update"]
)


@dataclasses.dataclass(frozen=True, eq=False)
class Listed:
    """An operand that is not a set: the items of an iterable, or a dict of class `base`, or the `view` of that name of such a
    dict. CPython treats each of them differently. (For `view` == "items" the items are pairs.)"""

    items: tuple[VariableTracker, ...]
    base: type[dict[Any, Any]] | None = None
    view: str | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Existing:
    """A set that existed before the frame ran, in the state that it had then: its elements, in order."""

    value: Any
    elements: tuple[VariableTracker, ...]

    def is_as_it_was(self) -> bool:
        return self.value.history is self

    def refuse(self) -> None:
        """Breaks the graph before the first change: the output code makes other sets after it has replayed changes."""
        _refuse(self.value.changed_at)


@dataclasses.dataclass(frozen=True, eq=False)
class Changed:
    """A set that existed before the frame ran and that the trace has changed. It was read at step `at`."""

    at: int


@dataclasses.dataclass(frozen=True, eq=False)
class Constant:
    """A constant: this frozenset object itself."""

    value: frozenset[Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Made:
    """function(*operands), where `function` is a set class called with one argument, or an operator on dict views."""

    function: Callable[..., Any]
    operands: tuple[Operand, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Step:
    """The state after before.method(*operands): of the same set if the method changes it in place, otherwise of a new set."""

    before: History
    method: str
    operands: tuple[Operand | VariableTracker, ...] = ()


Origin = Existing | Changed | Constant | Made
History = Origin | Step
Operand = History | Listed


def unrolled(history: History) -> tuple[Origin, list[Step]]:
    """The origin of a set and the steps applied to it since, oldest first."""
    steps = []
    while isinstance(history, Step):
        steps.append(history)
        history = history.before
    return history, steps[::-1]


def keeps_order(history: History) -> Existing | None:
    """The set in whose order a set is iterated that has lost some of its elements since. CPython makes no new table for that."""
    origin, steps = unrolled(history)
    return origin if isinstance(origin, Existing) and all(step.method == "discard" for step in steps) else None


def can_be_filled(history: History) -> bool:
    """Whether the set was made by `set(...)` and changed in place, so that an empty one can be filled to be the same."""
    origin, steps = unrolled(history)
    return isinstance(origin, Made) and origin.function is set and all(step.method in _IN_PLACE for step in steps)


def values_in(history: History) -> Iterator[VariableTracker]:
    """All tracked values that are needed to make the set again."""
    seen: set[Any] = set()
    todo: list[Any] = [history]
    while todo:
        part = todo.pop()
        if isinstance(part, VariableTracker):
            yield part
        elif part not in seen:
            seen.add(part)
            todo.extend(_parts(part))


def _parts(part: Operand) -> Iterable[Any]:
    match part:
        case Listed(items=items):
            return items
        case Existing(value=value):
            return (value,)
        case Made(operands=operands):
            return operands
        case Step(before=before, operands=operands):
            return (before, *operands)
    return ()


def _refuse(step: int) -> NoReturn:
    unsupported("cannot-reconstruct", break_step=step, value="a set made from one that changes in the same graph")


class Maker:
    """Emits code that makes a set. An operand that several operations share is made once."""

    def __init__(self, cg: ValueCodegen) -> None:
        self._cg = cg
        self._operands: dict[Operand, str] = {}

    def make(self, history: History) -> None:
        """-> the set"""
        self._make_with_steps(history)
        self._delete_operands()

    def fill(self, history: History, load: Callable[[], None]) -> None:
        """Makes an empty set, which `load` pushes, the one of a history that can_be_filled."""
        origin, _ = unrolled(history)
        assert isinstance(origin, Made)
        self._cg.call_object(set.update, load, *self._loads(origin.operands))
        self._cg.asm.pop()
        self.repeat(history, load)

    def repeat(self, history: History, load: Callable[[], None]) -> None:
        """Applies to the set that `load` pushes every step of the history since its origin."""
        for step in unrolled(history)[1]:
            load()
            self._apply(step)
            self._cg.asm.pop()
        self._delete_operands()

    def _delete_operands(self) -> None:
        """Emits the deletion of the locals in which shared operands were kept."""
        for name in self._operands.values():
            self._cg.asm.delete_fast(name)

    def _make_with_steps(self, history: History) -> None:
        """-> the set"""
        origin, steps = unrolled(history)
        self._make_origin(origin)
        for step in steps:
            self._apply(step)

    def _make_origin(self, origin: Origin) -> None:
        """-> the set as it was before its first step"""
        cg = self._cg
        match origin:
            case Existing(value=value):
                if not origin.is_as_it_was():
                    origin.refuse()
                cg.load(value)
            case Changed(at=at):
                _refuse(at)
            case Constant(value=value):
                cg.load_object(value)
            case Made(function=function, operands=operands):
                cg.call_object(function, *self._loads(operands))

    def _loads(self, operands: Iterable[Operand | VariableTracker]) -> list[Callable[[], None]]:
        return [functools.partial(self._load, operand) for operand in operands]

    def _apply(self, step: Step) -> None:
        """set -> set"""
        operands = self._loads(step.operands)
        if step.method in _IN_PLACE:  # it may be of a subclass, whose own methods must not run
            self._cg.call_object(getattr(set, step.method), lambda: self._cg.asm.copy(3), *operands)
            self._cg.asm.pop()
        else:
            self._cg.load_attr(step.method)
            self._cg.call_top(*operands)

    def _load(self, operand: Operand | VariableTracker) -> None:
        """-> the operand"""
        if isinstance(operand, VariableTracker):
            self._cg.load(operand)
        elif isinstance(operand, Listed):
            self._load_listed(operand)
        elif operand in self._operands:
            self._cg.asm.load_fast(self._operands[operand])
        else:
            self._make_with_steps(operand)
            name = self._operands[operand] = self._cg.asm.fresh_local("operand")
            self._cg.asm.copy(1)
            self._cg.asm.store_fast(name)

    def _load_listed(self, listed: Listed) -> None:
        cg = self._cg
        if listed.base is None:
            cg.build_sequence("BUILD_LIST", listed.items)
            return
        make = listed.base if listed.view == "items" else listed.base.fromkeys
        cg.call_object(make, lambda: cg.build_sequence("BUILD_LIST", listed.items))
        if listed.view is not None:
            cg.load_attr(listed.view)
            cg.call_top()
