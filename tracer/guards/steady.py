"""Guards that need no new check while nothing on the way to their values has changed: they read through dicts, types and
functions from long-lived objects.

`Grouping` gathers them by root. `_C.Steady` notes, when a group has held, the versions of the dicts and types that were
read (a watch token), and answers for the whole group while they stay. Tensors at the end of such paths are its leaves: they
can change without any dict knowing, so they are checked each time.

Beside the steps to a value stands a test of it, so that C can check the group again when something has changed. If C has no test
for one of the guards, the printed function checks the group.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterable, Mapping
from types import CodeType
from typing import Any

from tracer import _C
from tracer._C import STEP, TEST
from tracer.guards.base import Guard
from tracer.guards.demands import MOST, Demand, Equal, Is, IsNot, Keys, Leads, Length, OfType, Same, Tensor
from tracer.guards.reading import Steps
from tracer.guards.references import ObjectRef
from tracer.sources.base import CLOSURE, FrameValues, RootSource, Source, Unreadable

_FEWEST = 7  # guards and leaves of a group that is worth a state of its own
_FIRST = operator.itemgetter(0)
CONSTANTS = ""  # the root of paths that begin at objects which check_fn holds
Root = str | RootSource  # an argument slot, CLOSURE or CONSTANTS, or what is passed within a slot


def root_object(root: Root, slots: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """The object at a root, given the values of the argument slots: none for CONSTANTS. None where the call has no such."""
    if root == CONSTANTS:
        return ()
    if isinstance(root, str):
        return (slots[root],) if root in slots else None
    try:
        return (root.get(FrameValues(slots, {}, {}, {})),)
    except LookupError:
        return None


class Plan(Steps):
    """The steps from one root, as `_C.Steady` takes them, and the tests of the values that they lead to."""

    def __init__(
        self, code: CodeType, globals: dict[str, Any], builtins: Callable[[], dict[str, Any]], root: Root = CONSTANTS
    ) -> None:
        super().__init__(lambda name: 0, code, globals, builtins)
        self.tests: list[tuple[int, int, Any]] = []
        self.tells_all = True  # whether the tests hold exactly if the guards do
        if isinstance(root, RootSource):
            self._known[root] = self.add(STEP.ROOT, -1, 0)

    def test(self, step: int, kind: int, expected: Any) -> None:
        self.tests.append((step, kind, expected))


def _address(reference: ObjectRef) -> int:
    """The address of an object; 0, where no object is, if it has died."""
    return 0 if reference.dead else reference.id


def _tensor(plan: Plan, demand: Tensor) -> None:
    plan.of(demand.source)


def _identity(plan: Plan, demand: Is) -> None:
    plan.test(plan.of(demand.source), TEST.IS, _address(demand.obj))


def _another(plan: Plan, demand: IsNot) -> None:
    plan.test(plan.of(demand.source), TEST.IS_NOT, _address(demand.obj))


def _constant(plan: Plan, demand: Equal) -> None:
    step = plan.of(demand.source)
    plan.add(STEP.KEEP, step)
    plan.test(step, TEST.EQUAL, demand.value)


def _exact(plan: Plan, demand: OfType) -> None:
    step = plan.of(demand.source)
    plan.add(STEP.EXACT, step)
    plan.test(step, TEST.TYPE, _address(demand.cls))


def _length(plan: Plan, demand: Length) -> None:
    step = plan.of(demand.source)
    plan.add(STEP.WHOLE, step)
    if demand.least == demand.most:
        plan.test(step, TEST.LENGTH, demand.least)
        return
    if demand.least > 0:
        plan.test(step, TEST.REACHES, demand.least)
    if demand.most < MOST:
        plan.test(step, TEST.BELOW, demand.most + 1)


def _keys(plan: Plan, demand: Keys) -> None:
    step = plan.of(demand.source)
    plan.add(STEP.WHOLE, step)
    kinds = {type(key) is ObjectRef for key in demand.keys}
    if len(kinds) > 1:
        plan.tells_all = False
    elif True in kinds:
        plan.test(step, TEST.OBJECTS, tuple(map(_address, demand.keys)))
    else:
        plan.test(step, TEST.KEYS, demand.keys)


def _leads(plan: Plan, demand: Leads) -> None:
    kind = demand.step.kind if demand.present else demand.step.absent
    if kind is None or not demand.step.is_in_c(demand.key):
        raise Unreadable
    plan.add(kind, plan.of(demand.source), demand.key)


def _both(plan: Plan, demand: Same) -> None:
    first, second = sorted((plan.of(demand.a), plan.of(demand.b)))
    plan.test(second, TEST.SAME, first)


# How a demand adds its steps and tests to a plan. A guard with any other demand is in no group.
_DEMANDS: dict[type[Demand], Callable[[Plan, Any], None]] = {
    OfType: _exact,
    Tensor: _tensor,
    Is: _identity,
    IsNot: _another,
    Equal: _constant,
    Keys: _keys,
    Length: _length,
    Leads: _leads,
    Same: _both,
}


@dataclasses.dataclass
class Group:
    """The steady guards from one root, in the order in which they came, and the tensors they lead to."""

    root: Root
    plan: Plan
    guards: list[Guard] = dataclasses.field(default_factory=list)
    leaves: list[Tensor] = dataclasses.field(default_factory=list)
    placed: set[int] = dataclasses.field(default_factory=set)  # the ids of its guards, and of those on its leaves

    def is_worth_a_state(self) -> bool:
        return len(self.guards) + len(self.leaves) >= _FEWEST

    def watcher(self, apart: bool) -> _C.Steady:
        """The object that knows whether the group still holds. `apart`: it also checks that the leaves are distinct objects."""
        plan = self.plan
        held = tuple([plan.of(leaf.source) for leaf in self.leaves])
        given = int(self.root != CONSTANTS), tuple(plan.steps), held
        if not plan.tells_all:
            return _C.Steady(*given)
        return _C.Steady(*given, tuple(sorted(plan.tests, key=_FIRST)), apart)


class Grouping:
    """Gathers guards into groups by root, with what it needs to know of the frame."""

    def __init__(
        self,
        code: CodeType,
        slots: Iterable[str],
        globals: dict[str, Any],
        builtins: Callable[[], dict[str, Any]],
    ) -> None:
        self._new_plan: Callable[[Root], Plan] = lambda root: Plan(code, globals, builtins, root)
        self._slots = frozenset(slots)  # those that can be the same object in each call: not the containers *args and **kwargs
        self._groups: dict[Root, Group] = {}
        self._tensors: set[Source] = set()
        self._roots: dict[Source, Root | None] = {}

    def groups(self, guards: Iterable[Guard], first: tuple[Source, ...] = ()) -> list[Group]:
        """The groups of these guards that are large enough. `first`: leaves that come first in their group, in this order."""
        guards = tuple(guards)
        self._note_tensors(guards)
        for guard in guards:
            self._place(guard)
        worthy = self._worthy()
        position = {source: index for index, source in enumerate(first)}
        for group in worthy:
            group.leaves.sort(key=lambda leaf: position.get(leaf.source, len(position)))
        return worthy

    def leaves(self, guards: Iterable[Guard]) -> set[Source]:
        """The leaves of the groups that `groups` gives for the same guards. Other guards are placed only until each group with
        leaves is known to be large enough."""
        guards = tuple(guards)
        self._note_tensors(guards)
        others: list[Guard] = []
        for guard in guards:
            if guard.of_tensor:
                self._place(guard)
            else:
                others.append(guard)
        wanted = {root for root, group in self._groups.items() if group.leaves}
        for guard in others:
            wanted = {root for root in wanted if not self._groups[root].is_worth_a_state()}
            if not wanted:
                break
            self._place(guard)
        return {leaf.source for group in self._worthy() for leaf in group.leaves}

    def _worthy(self) -> list[Group]:
        return [group for group in self._groups.values() if group.is_worth_a_state()]

    def _note_tensors(self, guards: Iterable[Guard]) -> None:
        """Notes which sources are tensors: no path of a group leads through one."""
        self._tensors = {source for guard in guards if guard.of_tensor for source in guard.sources()}

    def _place(self, guard: Guard) -> None:
        demands = guard.demands()
        sources = guard.sources()
        root = self._root(sources[0]) if len(sources) == 1 else self._common_root(sources)
        if root is None or not demands or not guard.says_all():
            return
        for demand in demands:
            if type(demand) not in _DEMANDS or (isinstance(demand, Tensor) and _is_argument(demand.source)):
                return
        group = self._groups.get(root)
        if group is None:
            group = self._groups[root] = Group(root, self._new_plan(root))
        try:
            for demand in demands:
                _DEMANDS[type(demand)](group.plan, demand)
        except (Unreadable, KeyError):  # KeyError: a module that is not imported any more
            return  # the steps that were added lead to the object itself, as its other guards do
        group.placed.add(id(guard))
        leaves = [demand for demand in demands if isinstance(demand, Tensor)]
        group.leaves += leaves
        if len(leaves) < len(demands):
            group.guards.append(guard)

    def _common_root(self, sources: Iterable[Source]) -> Root | None:
        """The root that all sources have; None if there are several. Paths from constants fit any group."""
        roots = {self._root(source) for source in sources}
        if len(roots) > 1:
            roots.discard(CONSTANTS)
        return roots.pop() if len(roots) == 1 else None

    def _root(self, source: Source) -> Root | None:
        """Where the path begins; None if it leads through a tensor, or begins at an object that is new in each call."""
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

    def _root_of_path(self, source: Source) -> Root | None:
        slot = source.slot() if isinstance(source, RootSource) else None
        if isinstance(source, RootSource) and source.within_slot:
            return source
        if slot is None:
            return CONSTANTS
        return slot if slot in self._slots or slot == CLOSURE else None


def _is_argument(source: Source) -> bool:
    return isinstance(source, RootSource) and source.slot() not in (None, CLOSURE)
