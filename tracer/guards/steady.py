"""Which guards say nothing new while nothing has moved: those on what dicts, types and functions lead to from long-lived objects.

`steady_groups` gathers them by root. `_C.Steady` notes, when a group has held, the versions of the dicts and types that were
read (a watch token), and answers for the whole group while they stay. Tensors at the end of such paths are its leaves: they
can change without any dict knowing, so they are checked each time.

What guards demand of the values is noted beside the way to them, so that C asks the group again where something has moved. A
guard that C has no test for leaves that to the text of all.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any

from tracer import _C
from tracer._C import STEP, TEST
from tracer.guards.attributes import ClassHasAttr, HasAttr
from tracer.guards.base import Guard
from tracer.guards.constants import EqualsMatch
from tracer.guards.containers import DictContains, DictKeysMatch, DictLengthReaches, LengthMatch, NotInGlobals
from tracer.guards.identity import (
    BoolMatch,
    ClassAttrMatch,
    CodeMatch,
    FunctionMatch,
    IdMatch,
    ModuleMatch,
    NoneMatch,
    SameObject,
    TypeMatch,
)
from tracer.guards.reading import CLOSURE, Steps
from tracer.guards.references import ObjectRef
from tracer.guards.tensors import TensorMatch
from tracer.sources import CellSource, FreeVarSource, LocalSource, Source
from tracer.sources.base import PLAIN_KEYS, Unreadable

_FEWEST = 7  # guards and leaves of a group that is worth a state of its own
_FIRST = operator.itemgetter(0)
CONSTANTS = ""  # the root of paths that begin at objects which check_fn holds


class Unsteady(Exception):
    """A guard that the states of dicts and types cannot answer for."""


class Plan(Steps):
    """The steps from one root, as `_C.Steady` takes them, and the tests of the values that they lead to."""

    def __init__(self, code: CodeType, globals: dict[str, Any], builtins: Callable[[], dict[str, Any]]) -> None:
        super().__init__(lambda name: 0, code, globals, builtins)
        self.tests: list[tuple[int, int, Any]] = []
        self.tells_all = True  # whether the tests say what the guards say

    def test(self, step: int, kind: int, expected: Any) -> None:
        self.tests.append((step, kind, expected))


def _address(reference: ObjectRef) -> int:
    """Of an object that is watched, or bound: see ObjectRef. Nothing is at the address of one that has died."""
    return 0 if reference.dead else reference.id


def _tensor(plan: Plan, guard: TensorMatch) -> None:
    plan.of(guard.source)


def _identity(plan: Plan, guard: IdMatch) -> None:
    plan.test(plan.of(guard.source), TEST.IS, _address(guard.obj))


def _singleton(plan: Plan, guard: BoolMatch) -> None:
    plan.test(plan.of(guard.source), TEST.IS, id(guard.value))


def _none(plan: Plan, guard: NoneMatch) -> None:
    plan.test(plan.of(guard.source), TEST.IS if guard.is_none else TEST.IS_NOT, id(None))


def _constant(plan: Plan, guard: EqualsMatch) -> None:
    step, value = plan.of(guard.source), guard.value
    if type(value) is ObjectRef:
        plan.test(step, TEST.IS, _address(value))
    else:
        plan.add(STEP.KEEP, step)
        plan.test(step, TEST.EQUAL, value)


def _exact(plan: Plan, guard: TypeMatch) -> None:
    step = plan.of(guard.source)
    plan.add(STEP.EXACT, step)
    plan.test(step, TEST.TYPE, _address(guard.cls))


def _length(plan: Plan, guard: LengthMatch) -> None:
    step = plan.of(guard.source)
    plan.add(STEP.WHOLE, step)
    plan.test(step, TEST.LENGTH, guard.length)


def _length_reaches(plan: Plan, guard: DictLengthReaches) -> None:
    step = plan.of(guard.source)
    plan.add(STEP.WHOLE, step)
    plan.test(step, TEST.REACHES if guard.holds else TEST.BELOW, guard.count)


def _keys(plan: Plan, guard: DictKeysMatch) -> None:
    if guard.ordered_dict and guard.keys:
        raise Unsteady  # move_to_end changes no version
    step = plan.of(guard.source)
    plan.add(STEP.WHOLE, step)
    kinds = {type(key) is ObjectRef for key in guard.keys}
    if len(kinds) > 1:
        plan.tells_all = False
    elif True in kinds:
        plan.test(step, TEST.OBJECTS, tuple(map(_address, guard.keys)))
    else:
        plan.test(step, TEST.KEYS, guard.keys)


def _attribute(plan: Plan, guard: HasAttr) -> None:
    plan.add(STEP.ATTR if guard.present else STEP.NO_ATTR, plan.of(guard.source), guard.attr)


def _class_attribute(plan: Plan, guard: ClassHasAttr) -> None:
    plan.add(STEP.TYPE_LOOKUP if guard.present else STEP.NO_TYPE_LOOKUP, plan.of(guard.source), guard.attr)


def _key(plan: Plan, guard: DictContains) -> None:
    if type(guard.key) not in PLAIN_KEYS:
        raise Unsteady
    plan.add(STEP.ITEM if guard.present else STEP.NO_ITEM, plan.of(guard.source), guard.key)


def _no_global(plan: Plan, guard: NotInGlobals) -> None:
    plan.add(STEP.NO_ITEM, plan.of(guard.namespace()), guard.source.global_name)


def _code(plan: Plan, guard: CodeMatch) -> None:
    plan.test(plan.add(STEP.CODE, plan.of(guard.source)), TEST.IS, _address(guard.code_object))


def _both(plan: Plan, guard: SameObject) -> None:
    first, second = sorted((plan.of(guard.a), plan.of(guard.b)))
    plan.test(second, TEST.SAME, first)


_KINDS: dict[type[Guard], Callable[[Plan, Any], None]] = {
    TypeMatch: _exact,
    TensorMatch: _tensor,
    **dict.fromkeys((IdMatch, FunctionMatch, ModuleMatch, ClassAttrMatch), _identity),
    NoneMatch: _none,
    BoolMatch: _singleton,
    EqualsMatch: _constant,
    DictKeysMatch: _keys,
    LengthMatch: _length,
    DictLengthReaches: _length_reaches,
    HasAttr: _attribute,
    ClassHasAttr: _class_attribute,
    DictContains: _key,
    NotInGlobals: _no_global,
    CodeMatch: _code,
    SameObject: _both,
}


@dataclasses.dataclass
class Group:
    """The steady guards from one root, in the order in which they came, and the tensors they lead to."""

    root: str  # an argument slot, CLOSURE, or CONSTANTS
    plan: Plan
    guards: list[Guard] = dataclasses.field(default_factory=list)
    leaves: list[TensorMatch] = dataclasses.field(default_factory=list)

    def is_worth_a_state(self) -> bool:
        return len(self.guards) + len(self.leaves) >= _FEWEST

    def watcher(self, apart: bool) -> _C.Steady:
        """What answers for the group. `apart`: no two of the leaves may be one object."""
        plan = self.plan
        held = tuple([plan.of(leaf.source) for leaf in self.leaves])
        given = int(self.root != CONSTANTS), tuple(plan.steps), held
        if not plan.tells_all:
            return _C.Steady(*given)
        return _C.Steady(*given, tuple(sorted(plan.tests, key=_FIRST)), apart)


class Grouping:
    """`steady_groups`, with what it needs to know of the frame."""

    def __init__(
        self,
        code: CodeType,
        slots: Iterable[str],
        globals: dict[str, Any],
        builtins: Callable[[], dict[str, Any]],
    ) -> None:
        self._new_plan = lambda: Plan(code, globals, builtins)
        self._slots = frozenset(slots)  # those that can be the same object in each call: no *args, no **kwargs
        self._groups: dict[str, Group] = {}
        self._tensors: set[Source] = set()
        self._roots: dict[Source, str | None] = {}

    def groups(self, guards: Iterable[Guard], first: tuple[Source, ...] = ()) -> list[Group]:
        """`first`: leaves that are to stand first in their group, in this order."""
        guards = list(guards)
        self._tensors = {guard.source for guard in guards if isinstance(guard, TensorMatch)}
        for guard in guards:
            self._place(guard)
        worthy = self._worthy()
        position = {source: index for index, source in enumerate(first)}
        for group in worthy:
            group.leaves.sort(key=lambda leaf: position.get(leaf.source, len(position)))
        return worthy

    def leaves(self, guards: Iterable[Guard]) -> set[Source]:
        """The leaves of what `groups` gives for the same guards; of other guards only so many are looked at that it shows
        whether there are enough."""
        guards = list(guards)
        tensors = [guard for guard in guards if isinstance(guard, TensorMatch)]
        self._tensors = {guard.source for guard in tensors}
        for tensor in tensors:
            self._place(tensor)
        wanted = {root for root, group in self._groups.items() if group.leaves}
        for guard in guards:
            wanted = {root for root in wanted if not self._groups[root].is_worth_a_state()}
            if not wanted:
                break
            if not isinstance(guard, TensorMatch):
                self._place(guard)
        return {leaf.source for group in self._worthy() for leaf in group.leaves}

    def _worthy(self) -> list[Group]:
        return [group for group in self._groups.values() if group.is_worth_a_state()]

    def _place(self, guard: Guard) -> None:
        add = _KINDS.get(type(guard))
        if add is None:
            return
        sources = guard.sources()
        root = self._root(sources[0]) if len(sources) == 1 else self._common_root(sources)
        if root is None:
            return
        group = self._groups.get(root)
        if group is None:
            group = self._groups[root] = Group(root, self._new_plan())
        if isinstance(guard, TensorMatch) and isinstance(guard.source, LocalSource):
            return
        try:
            add(group.plan, guard)
        except (Unsteady, Unreadable, KeyError):  # KeyError: a module that is not imported any more
            return  # the steps that were added lead to the object itself, as its other guards do
        if isinstance(guard, TensorMatch):
            group.leaves.append(guard)
        else:
            group.guards.append(guard)

    def _common_root(self, sources: Iterable[Source]) -> str | None:
        """That of all sources; paths of any group may begin at constants, too."""
        roots = {self._root(source) for source in sources}
        if len(roots) > 1:
            roots.discard(CONSTANTS)
        return roots.pop() if len(roots) == 1 else None

    def _root(self, source: Source) -> str | None:
        """Where the path begins; None if it leads through a tensor or begins where each call brings another object."""
        try:
            return self._roots[source]
        except KeyError:
            base = source.base
            if base is None:
                root = self._root_of_path(source)
            else:
                root = None if base in self._tensors else self._root(base)
            self._roots[source] = root
            return root

    def _root_of_path(self, source: Source) -> str | None:
        match source:
            case LocalSource(name):
                return name if name in self._slots else None
            case CellSource() | FreeVarSource():
                return CLOSURE
        return CONSTANTS
