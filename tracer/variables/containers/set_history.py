"""What made a set what it is, kept so that the output code can do it again.

The order of a set follows from its hash table, and that from all that was ever done to the set: `{0, 1, 2, 7, 16}` and a copy of
it iterate differently. So a set is not made from its elements, but by the operations that the program applied.
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
    """An operand that is no set: what an iterable gives, or the keys of a dict of class `base`, or its `view`, which CPython
    each treats in its own way. (The items of a dict are pairs.)"""

    items: tuple[VariableTracker, ...]
    base: type[dict[Any, Any]] | None = None
    view: str | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Existing:
    """A set that existed before the frame ran, as it was then."""

    value: Any

    def is_as_it_was(self) -> bool:
        return self.value.history is self

    def refuse(self) -> None:
        """The output code makes sets when all changes are done: the graph breaks before the first."""
        _refuse(self.value.changed_at)


@dataclasses.dataclass(frozen=True, eq=False)
class Changed:
    """A set that existed before the frame ran, as the trace has changed it, at the step `at` where it was read."""

    at: int


@dataclasses.dataclass(frozen=True, eq=False)
class Constant:
    """This very frozenset."""

    value: frozenset[Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Made:
    """function(*operands): a class of sets of one argument, or an operator on views of dicts."""

    function: Callable[..., Any]
    operands: tuple[Operand, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Step:
    """before.method(*operands): the same set afterwards, or a new one."""

    before: History
    method: str
    operands: tuple[Operand | VariableTracker, ...] = ()


Origin = Existing | Changed | Constant | Made
History = Origin | Step
Operand = History | Listed


def unrolled(history: History) -> tuple[Origin, list[Step]]:
    """How it began, and what was done since."""
    steps = []
    while isinstance(history, Step):
        steps.append(history)
        history = history.before
    return history, steps[::-1]


def values_in(history: History) -> Iterator[VariableTracker]:
    """All that making the set again needs."""
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
    """Emits the making of a set. What is an operand of several operations is made once."""

    def __init__(self, cg: ValueCodegen) -> None:
        self._cg = cg
        self._operands: dict[Operand, str] = {}

    def make(self, history: History) -> None:
        """-> the set"""
        self._begin_and_go_on(history)
        self._let_go()

    def repeat(self, history: History, load: Callable[[], None]) -> None:
        """Does to the set that `load` pushes what was done to one since it was there."""
        for step in unrolled(history)[1]:
            load()
            self._apply(step)
            self._cg.asm.pop()
        self._let_go()

    def _let_go(self) -> None:
        for name in self._operands.values():
            self._cg.asm.delete_fast(name)

    def _begin_and_go_on(self, history: History) -> None:
        origin, steps = unrolled(history)
        self._begin(origin)
        for step in steps:
            self._apply(step)

    def _begin(self, origin: Origin) -> None:
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
        if step.method == "add":
            self._load(step.operands[0])
            self._cg.asm.emit("SET_ADD", 1)
            return
        operands = self._loads(step.operands)
        if step.method in _IN_PLACE:  # perhaps of a subclass, whose own methods must not run
            self._cg.call_object(getattr(set, step.method), lambda: self._cg.asm.copy(3), *operands)
            self._cg.asm.pop()
        else:
            self._cg.load_attr(step.method)
            self._cg.call_top(*operands)

    def _load(self, operand: Operand | VariableTracker) -> None:
        """-> what a set is combined with"""
        if isinstance(operand, VariableTracker):
            self._cg.load(operand)
        elif isinstance(operand, Listed):
            self._load_listed(operand)
        elif operand in self._operands:
            self._cg.asm.load_fast(self._operands[operand])
        else:
            self._begin_and_go_on(operand)
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
