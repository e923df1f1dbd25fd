"""A kind of guard or source is one class: its checks, reads and text, and its part in decisions, follow from what it declares."""

from __future__ import annotations

import collections
from typing import Any, ClassVar

import pytest

from tests.guards.helpers import X, agreed, frame, manager_of
from tests.sources.test_sources import CASES, IDS, HostileList, StackMachine, read_by_check_fn, root_frame, same, values_of
from tracer import _C
from tracer.guards import checklist, decision, implication, reading, steady
from tracer.guards.base import Guard, Mismatch, guard_kind, shown
from tracer.guards.demands import Demand, Length
from tracer.guards.identity import TypeMatch
from tracer.guards.implication import implied_beside_shapes
from tracer.guards.manager import CheckFunctionManager
from tracer.guards.reading import Steps, readable
from tracer.guards.values import EqualsMatch
from tracer.sources import steps
from tracer.sources.attributes import AttrSource, TypeSource
from tracer.sources.base import Source, source_kind
from tracer.sources.containers import ItemSource


@guard_kind
class LengthBetween(Guard):
    """A new kind of guard: the length of a container lies in an interval."""

    source: Source
    least: int
    most: int
    kind: ClassVar[str] = "LENGTH_BETWEEN"
    rank: ClassVar[int] = 2
    told: ClassVar[bool] = True

    def demands(self) -> tuple[Demand, ...]:
        return (Length(self.source, self.least, self.most),)

    def lines(self) -> list[str]:
        return [f"{self.least} <= len({self.source.name}) <= {self.most}"]

    def explain(self, *seen: Any) -> Mismatch:
        return Mismatch(f"{self.source.name} has another length", self.lines()[0], shown(len(seen[0])))


@source_kind
class OfClassSource(Source):
    """A new kind of source: what the class of an object has under a name."""

    base: Source
    attr: str
    way = (steps.TYPE, steps.TYPE_LOOKUP)
    named = "type({self.base}).{self.attr}"


class Holder:
    sizes = [1, 2, 3]

    def __init__(self, value: Any = None) -> None:
        self.value = value


class Longer(Holder):
    sizes = [1, 2, 3, 4, 5]


VALUE = AttrSource(X, "value")
LENGTHS = LengthBetween(VALUE, 2, 3)
INSIDE, OUTSIDE = [[1, 2], [1, 2, 3]], [[], [1], [1, 2, 3, 4]]


# ---- a guard kind


def test_a_new_kind_of_guard_is_checked_by_its_text_and_explained() -> None:
    manager = manager_of(LENGTHS)
    assert "2 <= ___size(v1) <= 3" in manager.exec_text
    assert manager.source_text == "2 <= len(L['x'].value) <= 3"
    for value in INSIDE:
        assert agreed(manager, Holder(value))
    for value in OUTSIDE:
        assert not agreed(manager, Holder(value))
        failure = manager.explain((Holder(value),))
        assert failure is not None and failure.message == "L['x'].value has another length" and failure.seen == str(len(value))


def test_a_new_kind_of_guard_is_on_the_list_that_c_goes_through() -> None:
    manager = manager_of(TypeMatch(VALUE, list), LENGTHS)
    assert type(manager.check_fn) is _C.Checklist and manager.check_fn.rest is None
    for value in [*INSIDE, *OUTSIDE]:
        assert agreed(manager, Holder(value)) is (value in INSIDE)


def test_a_new_kind_of_guard_is_not_asked_again_while_nothing_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steady, "_FEWEST", 1)
    manager = manager_of(LENGTHS)
    [group] = [value for value in manager.check_fn.whole.printed.namespace.values() if type(value) is _C.Steady]  # type: ignore[attr-defined]
    holder = Holder([1, 2])
    assert not group.known and manager.check_fn(holder) is True
    assert group.known and group(holder) == ()
    holder.value.append(3)
    assert group(holder) is None and manager.check_fn(holder) is True
    holder.value.append(4)
    assert manager.check_fn(holder) is False


def test_a_new_kind_of_guard_tells_entries_apart() -> None:
    per_entry = [[LengthBetween(X, 0, 1)], [LengthBetween(X, 2, 3)], [LengthBetween(X, 3, 9)]]
    decided = decision.decide(("a", "b", "c"), [decision.tests_of(each) for each in per_entry], frame.__code__, globals())
    assert [decided.candidates([0] * count) for count in (0, 2, 3, 4, 10)] == [("a",), ("b",), ("b", "c"), ("c",), ()]


def test_a_new_kind_of_guard_follows_from_itself_alone() -> None:
    assert implied_beside_shapes([LENGTHS], [LengthBetween(VALUE, 2, 3)])
    assert not implied_beside_shapes([LENGTHS], [LengthBetween(VALUE, 2, 4)])
    assert implied_beside_shapes([EqualsMatch(VALUE, 5)], [TypeMatch(VALUE, int)])


def test_a_kind_that_is_checked_in_its_own_way_is_left_to_python() -> None:
    @guard_kind
    class NotFive(LengthBetween):
        def check(self, code: Any) -> str | None:
            return f"len({code.read(self.source)}) != 5"

    manager = manager_of(TypeMatch(X, list), NotFive(X, 2, 3))
    assert manager.check_fn.rest is not None  # type: ignore[attr-defined]
    assert manager.check_fn([1]) is True and manager.check_fn([0] * 5) is False


# ---- a source kind


@pytest.mark.parametrize("owner", [Holder(), Longer()])
def test_a_new_kind_of_source_is_read_in_all_ways(owner: Holder) -> None:
    source = OfClassSource(X, "sizes")
    assert source.name == "type(L['x']).sizes"
    values = values_of(owner)
    assert source.get(values) is owner.sizes is read_by_check_fn(source, owner)
    machine = StackMachine(values)
    source.emit(machine)
    assert machine.stack == [owner.sizes]
    assert readable(source) and walked(source, owner) is recorded(source, owner) is owner.sizes


def test_a_guard_on_a_new_kind_of_source_is_checked_in_c_and_explained() -> None:
    source = OfClassSource(X, "sizes")
    manager = manager_of(TypeMatch(source, list), LengthBetween(source, 1, 3))
    assert manager.check_fn.rest is None  # type: ignore[attr-defined]
    assert agreed(manager, Holder()) and not agreed(manager, Longer())
    failure = manager.explain((Longer(),))
    assert failure is not None and failure.message == "type(L['x']).sizes has another length"


# ---- all kinds of sources: C reads what `get` does


def walked(source: Source, x: Any) -> Any:
    """The value to which a list in C leads."""
    return CheckFunctionManager([], root_frame.__code__, root_frame.__globals__, fetched=(source,)).check_fn(x)[0]


def recorded(source: Source, x: Any) -> Any:
    """The value to which a group of guards leads."""
    plan = steady.Plan(root_frame.__code__, root_frame.__globals__, dict)
    held = plan.of(source)
    group = _C.Steady(1, tuple(plan.steps), (held,))
    group.keep(group.look(x), x)
    return group(x)[0]  # type: ignore[index]


IN_C = [case for case in CASES if readable(case[0])]


@pytest.mark.parametrize(("source", "x", "name", "expected"), IN_C, ids=[case[2] for case in IN_C])
def test_c_reads_the_same_value(source: Source, x: Any, name: str, expected: Any) -> None:
    value = source.get(values_of(x))
    assert same(walked(source, x), value)
    if type(x) not in (collections.deque, HostileList):  # whose items lie elsewhere, or may
        assert same(recorded(source, x), value)


def test_most_kinds_of_sources_are_read_in_c() -> None:
    left = {IDS[CASES.index(case)] for case in CASES if case not in IN_C}
    by_name = {"G['__builtins__']['len']", "sys.modules['torch']", "sys.modules['torch'].add", "sys.modules['torch'].__dict__"}
    positions = {"list(L['x'])[1]", "list(L['x'].values())[1]", "L['x'][list(L['x'])[1]]"}
    of_tensors = {"L['x'].size()[1]", "L['x'].stride()[0]", "L['x'].storage_offset()", "L['x'].grad"}
    other_keys = {"L['x'][0.5]", "L['x'][torch.float32]"}
    assert left == by_name | positions | of_tensors | other_keys | {"L['x'].start"}


def test_an_index_that_no_list_has_leads_nowhere_in_c() -> None:
    manager = manager_of(TypeMatch(X, list), TypeMatch(ItemSource(X, 2**70), int))
    assert manager.check_fn([1, 2]) is not True


# ---- nobody lists kinds


CONSUMERS = (checklist, decision, implication, reading, steady)
MADE = {"TensorSizeSource", "TensorStrideSource"}  # as the places of constants


@pytest.mark.parametrize("module", CONSUMERS, ids=lambda module: module.__name__)
def test_what_consumes_demands_and_steps_knows_no_kind_by_name(module: Any) -> None:
    kinds = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, (Guard, Source))]
    assert {kind.__name__ for kind in kinds} - {"Guard", "Source", "RootSource"} <= MADE


def test_the_type_of_an_object_is_a_step_of_its_own() -> None:
    assert OfClassSource(X, "sizes") != TypeSource(X)
    plan = Steps.of_call(frame.__code__, globals())
    assert plan.of(OfClassSource(X, "sizes")) == plan.of(TypeSource(X)) + 1
