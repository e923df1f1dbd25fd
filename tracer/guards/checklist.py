"""Guards as data that `_C.Checklist` compares without running Python; a Python function checks the guards that C cannot.

A guard can be taken into the list if it holds exactly if its demands do (see `guards.demands`) and C can test each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType
from typing import Any

from tracer import _C
from tracer._C import STEP, WORD
from tracer.guards.base import Guard
from tracer.guards.decision import PLAIN_TENSORS, intervals_of, value_word
from tracer.guards.demands import (
    LEAST,
    MOST,
    Apart,
    Counted,
    Demand,
    Equal,
    Feature,
    Interval,
    Is,
    Keys,
    Leads,
    Length,
    Lies,
    OfType,
    Present,
    State,
    Stays,
    Tensor,
)
from tracer.guards.reading import Readable, Steps, argument_slots
from tracer.guards.steady import CONSTANTS, Group
from tracer.sources.base import Source

_CONTAINERS = (list, tuple, dict)


class ListBuilder:
    """Takes guards one by one; `build` makes the check_fn."""

    def __init__(self, code: CodeType, globals: dict[str, Any]) -> None:
        self._code = code
        self._steps = Steps.of_call(code, globals)
        self._readable = Readable()
        self._state: Any = None
        self._watcher: Any = None
        self._counter: tuple[_C.Counter | None, int] = None, 0
        self._unchanged: Any = None
        self._groups: list[tuple[Any, Any, int]] = []
        self._held: dict[Source, tuple[int, int]] = {}  # leaf -> (index of its group, index in the group)
        self._known_apart = -1
        self._known_classes: set[type] = set()
        self._features: dict[Feature, int] = {}
        self._ranges: dict[Feature, Interval] = {}
        self._equals: list[tuple[int, Any]] = []
        self._tensors: list[Tensor] = []
        self._apart: tuple[Source, ...] = ()
        self._types: dict[Source, type | None] = {}

    # ---- groups

    def take_group(self, group: Group, steady: Any, match: Any, apart: bool) -> bool:
        """Takes a group of steady guards, if C can test its leaves. `steady` and `match` are the objects that the function for
        all guards uses. `apart`: `steady` checks that the leaves are distinct."""
        if not all(leaf.spec.cls in PLAIN_TENSORS and leaf.spec.dispatch_keys is not None for leaf in group.leaves):
            return False
        slots = argument_slots(self._code)
        if isinstance(group.root, Source):
            root = -2 - self._steps.of(group.root)
        else:
            root = -1 if group.root == CONSTANTS else slots.index(group.root) if group.root in slots else len(slots)
        if apart and self._known_apart < 0 and group.leaves:
            self._known_apart = len(self._groups)
            self._known_classes = {leaf.spec.cls for leaf in group.leaves}
        for index, leaf in enumerate(group.leaves):
            self._held[leaf.source] = len(self._groups), index
        self._groups.append((steady, match, root))
        return True

    # ---- guards

    def take(self, guard: Guard, unchanged: Any = None) -> bool:
        """Takes a guard, if C can test it; returns whether it did. `unchanged`: the watcher that the function for all guards
        uses."""
        self._watcher = unchanged
        demands = guard.demands() if guard.says_all() else ()
        if not demands or not all(type(demand) in _TAKE for demand in demands):
            return False
        # If a later demand cannot be taken, the earlier ones stay in the list: the guard demands them, so they are not wrong.
        return all(_TAKE[type(demand)](self, demand) for demand in demands)

    def _state_holds(self, demand: State) -> bool:
        if self._state is not None:
            return False
        self._state = demand.snapshot
        return True

    def _stays(self, demand: Stays) -> bool:
        if self._watcher is None or self._unchanged is not None:
            return False
        self._unchanged = self._watcher
        return True

    def _counted(self, demand: Counted) -> bool:
        if type(demand.counter) is not _C.Counter or self._counter[0] is not None:
            return False
        self._counter = demand.counter, demand.count
        return True

    def _tensor(self, demand: Tensor) -> bool:
        spec = demand.spec
        if not self._readable(demand.source) or spec.cls not in PLAIN_TENSORS or spec.dispatch_keys is None:
            return False
        self._tensors.append(demand)
        return True

    def _apart_from_each_other(self, demand: Apart) -> bool:
        if self._apart or not all(source in self._held or self._readable(source) for source in demand.group):
            return False
        self._apart = demand.group
        return True

    def _exact(self, demand: OfType) -> bool:
        if demand.cls.dead or not self._words(demand):
            return False
        self._types[demand.source] = demand.cls.get()
        return True

    def _identity(self, demand: Is) -> bool:
        return not demand.obj.dead and self._words(demand)

    def _words(self, demand: Demand) -> bool:
        """Takes a demand that holds exactly if some features lie in intervals."""
        return self._lie(Lies(feature, low, high) for feature, low, high in intervals_of(demand))

    def _lie(self, demands: Iterable[Lies]) -> bool:
        found = list(demands)
        words = [word for each in found for _, word in each.feature.terms]
        if not found or not all(self._readable(word.source) for word in words):
            return False
        for each in found:
            low, high = self._ranges.get(each.feature, (LEAST, MOST))
            self._ranges[each.feature] = max(low, each.low), min(high, each.high)
        return True

    def _lies(self, demand: Lies) -> bool:
        """C reads a word of any value as an int, so the values that must be ints have to be shown to be ints first."""
        words = [word for _, word in demand.feature.terms]
        ints = all(word.kind != WORD.INT or self._types.get(word.source) is int for word in words)
        return ints and self._words(demand)

    def _length(self, demand: Length) -> bool:
        return self._types.get(demand.source) in _CONTAINERS and self._words(demand)

    def _keys(self, demand: Keys) -> bool:
        source, keys = demand.source, demand.keys
        if self._types.get(source) is not dict or not self._readable(source) or not all(type(key) is str for key in keys):
            return False
        self._equals.append((self._steps.of(source), keys))
        return True

    def _leads(self, demand: Leads) -> bool:
        """Takes the presence of a key in a dict, which C can always decide; for other steps it may need Python."""
        source, step = demand.source, demand.step
        if step.kind != STEP.ITEM or step.absent is None or not step.is_in_c(demand.key):
            return False
        if self._types.get(source) is not dict or not self._readable(source):
            return False
        self._steps.add(step.kind if demand.present else step.absent, self._steps.of(source), demand.key)
        return True

    def _present(self, demand: Present) -> bool:
        if not self._readable(demand.source):
            return False
        self._steps.of(demand.source)
        return True

    def _constant(self, demand: Equal) -> bool:
        source, value = demand.source, demand.value
        if type(value) is str and self._readable(source):
            self._equals.append((self._steps.of(source), value))
            return True
        return self._lie(value_word(source, value))

    # ---- the list

    def _value(self, source: Source) -> int | tuple[int, int]:
        return self._held[source] if source in self._held else self._steps.of(source)

    def _classes_of(self, sources: Iterable[Source]) -> set[type]:
        """The classes that the tensors at these sources may have if the other checks of the list hold."""
        exact = {tensor.source: tensor.spec.cls for tensor in self._tensors}
        return {cls for source in sources for cls in ([exact[source]] if source in exact else PLAIN_TENSORS)}

    def build(
        self,
        fetched: tuple[Source, ...] | None,
        rest: Callable[..., Any] | None,
        whole: Callable[..., Any],
    ) -> _C.Checklist:
        """The finished list. `fetched`: the tensors that it returns in place of True. `whole` checks all guards, `rest` those
        that were not taken."""
        tensors = [self._value(tensor.source) for tensor in self._tensors]
        known = self._known_apart
        if not {source for source, (group, _) in self._held.items() if group == known}.issubset(self._apart):
            known = -1
        others = [source for source in self._apart if not (source in self._held and self._held[source][0] == known)]
        apart = [self._value(source) for source in others]
        if self._known_classes.isdisjoint(self._classes_of(others)):  # objects of different classes are distinct
            known = -1
        handed = None if fetched is None else [self._value(source) for source in fetched]
        features = tuple([
            (feature.modulus, tuple([(factor, w.kind, w.dim, self._steps.of(w.source)) for factor, w in feature.terms]))
            for feature in self._ranges
        ])  # fmt: skip
        ranges = [(index, low, high) for index, (low, high) in enumerate(self._ranges.values())]
        placed = self._placed
        match = _C.TensorMatch(tuple([tensor.spec for tensor in self._tensors])) if tensors else None
        return _C.Checklist(
            len(argument_slots(self._code)) + bool(self._code.co_freevars),
            self._state,
            *self._counter,
            self._unchanged,
            tuple(self._steps.steps),
            tuple(self._groups),
            features,
            tuple(ranges),
            tuple(self._equals),
            match,
            placed(tensors),
            placed(apart),
            known if self._apart else -1,
            None if handed is None else placed(handed),
            rest=rest,
            whole=whole,
        )

    def _placed(self, values: Sequence[int | tuple[int, int]]) -> tuple[int, ...]:
        """Indices of values: what was read comes first, then the tensors of each group."""
        starts = [len(self._steps.steps)]
        for steady, _, _ in self._groups:
            starts.append(starts[-1] + steady.held_count)
        return tuple([value if isinstance(value, int) else starts[value[0]] + value[1] for value in values])


def with_watchers(checklist: _C.Checklist, fresh: Mapping[int, _C.Steady], whole: Callable[..., Any]) -> _C.Checklist:
    """The same list with other watchers of its groups. `fresh`: by the ids of those that it has; `whole`: as for `build`."""
    plan: Any = list(checklist.plan)
    plan[_GROUPS] = tuple([(fresh[id(steady)], match, root) for steady, match, root in plan[_GROUPS]])
    return _C.Checklist(*plan, rest=checklist.rest, whole=whole)


_GROUPS = 6  # the position of `groups` among the arguments of a Checklist

_TAKE: dict[type[Demand], Callable[[ListBuilder, Any], bool]] = {
    State: ListBuilder._state_holds,
    Stays: ListBuilder._stays,
    Counted: ListBuilder._counted,
    Tensor: ListBuilder._tensor,
    Apart: ListBuilder._apart_from_each_other,
    OfType: ListBuilder._exact,
    Is: ListBuilder._identity,
    Equal: ListBuilder._constant,
    Length: ListBuilder._length,
    Keys: ListBuilder._keys,
    Leads: ListBuilder._leads,
    Present: ListBuilder._present,
    Lies: ListBuilder._lies,
}
