"""Weak references: which objects have them, that each has one, and when it leads to nothing."""

from __future__ import annotations

import copy
import gc
import types
import weakref
from typing import Any

import pytest
import torch

import tracer
from tests.support import breaks, captured, captured_made, check, check_made

X = torch.ones(2)


class Slotted:
    __slots__ = ("value",)


class Plain:
    pass


PLAIN, SLOTTED, NAMESPACE = Plain(), Slotted(), types.SimpleNamespace()


def test_weak_references_to_what_has_none() -> None:
    def f(x: torch.Tensor, items: list[int]) -> Any:
        seen: list[Any] = []
        for target in (PLAIN, SLOTTED, NAMESPACE, items, Plain):
            try:
                seen.append(weakref.ref(target)() is target)
            except TypeError as error:
                seen.append(str(error))
        return x + 1, seen

    captured(f, X, [1])


class Equal:
    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal) and self.value == other.value


def of_what_is_given_out(x: torch.Tensor) -> Any:
    held, y = Equal(1), x + 1
    held.value = weakref.ref(held)
    return held, weakref.ref(y), y, weakref.ref(held)() is held, weakref.ref(held) is held.value


def of_what_is_held_by_an_item(x: torch.Tensor) -> Any:
    items = [Equal(1)]
    watch = weakref.ref(items[0])
    return watch() is items[0], items, watch, x + 1


def of_a_parameter(x: torch.Tensor) -> Any:
    parameter = torch.nn.Parameter(torch.ones(2))
    watch = weakref.ref(parameter)
    return watch() is parameter, x * parameter, [watch, weakref.ref(parameter)]


def that_is_asked_nothing(x: torch.Tensor) -> Any:
    watches = [weakref.ref(Equal(number)) for number in range(3)]
    return x + len(watches)


@pytest.mark.parametrize("program", [of_what_is_given_out, of_what_is_held_by_an_item, that_is_asked_nothing])
def test_a_weak_reference_to_what_the_trace_makes(program: Any) -> None:
    captured(program, X)


def test_a_weak_reference_to_a_parameter_that_dies_with_the_frame() -> None:
    watches = check(of_a_parameter, X).result[2]
    assert watches[0] is watches[1]
    gc.collect()
    assert watches[0]() is None


def whose_target_has_gone(x: torch.Tensor) -> Any:
    held = Equal(1)
    watch = weakref.ref(held)
    held = None  # type: ignore[assignment]
    return watch() is None, x + 1


def whose_target_went_with_its_frame(x: torch.Tensor) -> Any:
    def inner() -> Any:
        held = Equal(1)
        return weakref.ref(held)

    return inner()() is None, x + 1


def whose_target_is_a_part_of_a_cycle(x: torch.Tensor) -> Any:
    held = Equal(1)
    held.value = held  # type: ignore[assignment]
    watch = weakref.ref(held)
    held = None  # type: ignore[assignment]
    return watch() is None, x + 1


def whose_target_goes_behind_a_break(x: torch.Tensor) -> Any:
    held, items = Equal(1), [Equal(2)]
    watches = [weakref.ref(held), weakref.ref(items[0])]
    tracer.graph_break()
    alive = [watch() is None for watch in watches]
    tracer.graph_break()
    items.clear()
    alive += [watch() is None for watch in watches]
    held = None  # type: ignore[assignment]
    return alive + [watch() is None for watch in watches], x + 1


def whose_target_is_read_no_more_behind_a_break(x: torch.Tensor) -> Any:
    held = Equal(1)
    watch = weakref.ref(held)
    tracer.graph_break()
    alive = watch() is None
    tracer.graph_break()
    return alive, watch() is None, x + 1


@pytest.mark.parametrize(
    "program",
    [
        whose_target_has_gone,
        whose_target_went_with_its_frame,
        whose_target_is_a_part_of_a_cycle,
        whose_target_goes_behind_a_break,
        whose_target_is_read_no_more_behind_a_break,
    ],
)
def test_a_weak_reference_is_asked_when_the_target(program: Any) -> None:
    breaks(program, X)


def test_an_object_has_one_weak_reference() -> None:
    def f(x: torch.Tensor, first: Any, second: Any) -> Any:
        same = weakref.ref(first) is weakref.ref(first), weakref.ref(first) is weakref.ref(second)
        return x + 1, same, weakref.ref(first) == weakref.ref(first)

    captured(f, X, Plain(), Plain())
    thing = Plain()
    captured_made(f, lambda: ((X, thing, thing), {}))
    known = weakref.ref(PLAIN)
    breaks(lambda x: (x + 1, weakref.ref(PLAIN) is known), X)


def test_a_tensor_that_the_frame_was_given_and_drops() -> None:
    def f(x: torch.Tensor) -> Any:
        held: Any = x + 1
        tracer.graph_break()
        watch = weakref.ref(held)
        held = None
        return x * 2, watch() is None

    assert breaks(f, X).result[1]


def test_what_is_dropped_by_an_object_that_the_trace_changes() -> None:
    def by_a_list(x: torch.Tensor, items: list[Any], watch: Any) -> Any:
        before = watch() is None
        items.clear()
        return x + 1, before, watch() is None

    def by_an_attribute(x: torch.Tensor, holder: Any, watch: Any) -> Any:
        holder.value = None
        return x + 1, watch() is None

    for program, holder in ((by_a_list, [Plain()]), (by_an_attribute, types.SimpleNamespace(value=Plain()))):

        def make(holder: Any = holder) -> Any:
            held: Any = copy.deepcopy(holder)
            return (X, held, weakref.ref(held[0] if isinstance(held, list) else held.value)), {}

        assert check_made(program, make).breaks


class Owner:
    """What objects like to know by a weak proxy: it holds them, and they read their settings from it."""

    def __init__(self) -> None:
        self.epoch, self.items = 2, [1, 2]

    @property
    def next_epoch(self) -> int:
        return self.epoch + 1

    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.epoch

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> int:
        return self.items[index]

    def __contains__(self, item: int) -> bool:
        return item in self.items

    def __add__(self, other: object) -> str:
        return type(other).__name__

    def __radd__(self, other: object) -> str:
        return type(other).__name__

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.epoch

    def __str__(self) -> str:
        return "the owner"


OWNER = Owner()
CALLED, PROXY = weakref.proxy(OWNER), weakref.proxy(PLAIN)


def reads_and_writes_through_a_proxy(x: torch.Tensor) -> Any:
    CALLED.epoch = 3
    x = CALLED.scaled(x) + CALLED.next_epoch
    CALLED.epoch -= 1
    CALLED.extra = x
    extra = CALLED.extra
    del CALLED.extra
    return x, extra, CALLED(x), OWNER.epoch


def operators_of_a_proxy(x: torch.Tensor) -> Any:
    texts = str(CALLED), CALLED + 1, 1 + CALLED, CALLED + CALLED
    return x + 1, texts, len(CALLED), CALLED[0], list(CALLED), 2 in CALLED, bool(CALLED), CALLED == CALLED


def classes_of_a_proxy(x: torch.Tensor) -> Any:
    seen = [isinstance(CALLED, each) for each in (Owner, object, int, weakref.CallableProxyType, torch.nn.Module)]
    return x + 1, seen, type(CALLED) is weakref.CallableProxyType, type(PROXY) is weakref.ProxyType, CALLED.__class__


def errors_of_a_proxy(x: torch.Tensor) -> Any:
    seen = []
    for call in (lambda: hash(CALLED), lambda: PROXY(x), lambda: PROXY.missing, lambda: weakref.proxy(1)):
        try:
            call()
        except (TypeError, AttributeError) as error:
            seen.append(str(error))
    return x + 1, seen


def proxies_that_are_made(x: torch.Tensor) -> Any:
    owner = Owner()
    owner.me = weakref.proxy(owner)  # type: ignore[attr-defined]
    proxy = weakref.proxy(OWNER)
    return proxy(x), owner, owner.me.next_epoch, weakref.proxy(owner) is owner.me, weakref.ref(owner)() is owner  # type: ignore[attr-defined]


PROXIES = (reads_and_writes_through_a_proxy, operators_of_a_proxy, classes_of_a_proxy, errors_of_a_proxy, proxies_that_are_made)


@pytest.mark.parametrize("f", PROXIES)
def test_a_weak_proxy_stands_for_its_target(f: Any) -> None:
    captured(f, X)


def test_a_proxy_is_guarded_through_and_raises_when_its_target_is_gone() -> None:
    owner = Owner()
    holder = types.SimpleNamespace(owner=weakref.proxy(owner))
    g = tracer.compile(lambda x: x * holder.owner.epoch)
    assert torch.equal(g(X), 2 * X)
    owner.epoch = 5
    assert torch.equal(g(X), 5 * X)
    del owner
    with pytest.raises(ReferenceError, match="weakly-referenced object no longer exists"):
        g(X)


def test_a_reference_is_followed_behind_a_store_that_releases_nothing() -> None:
    def f(x: torch.Tensor, counter: Any) -> Any:
        counter.calls = 1
        return x + CALLED.epoch, counter.calls

    captured(f, X, types.SimpleNamespace(calls=0))


def test_a_reference_is_not_followed_behind_a_store_that_may_release_its_target() -> None:
    holder = types.SimpleNamespace(owner=Owner())
    seen = weakref.proxy(holder.owner)

    def f(x: torch.Tensor) -> Any:
        holder.owner = None
        return x + seen.epoch

    g = tracer.compile(f)
    with pytest.raises(ReferenceError):
        g(X)


class Holder:
    def __init__(self, value: Any) -> None:
        self.value = value


def test_weak_containers_hold_what_is_alive() -> None:
    def f(x: torch.Tensor) -> Any:
        one, two = Holder(1), Holder(2)
        members = weakref.WeakSet([one])
        members.add(one)
        by_object: Any = weakref.WeakKeyDictionary({one: x})
        by_object[two] = 3
        by_name: Any = weakref.WeakValueDictionary({"a": one})
        asked = one in members, two in members, 3 in members, "b" in by_name, by_name.get("b"), bool(members), len(by_object)
        gone_through = [each.value for each in by_object], list(by_object.values())[1], [name for name, _ in by_name.items()]
        members.discard(one)
        del by_object[two]
        kinds = isinstance(members, weakref.WeakSet), type(by_name) is weakref.WeakValueDictionary
        return x + len(members), asked, gone_through, by_object[one], by_name["a"].value, len(by_object), kinds

    captured(f, X)


def test_what_a_weak_container_lacks_is_named_by_a_weak_reference() -> None:
    def f(x: torch.Tensor) -> Any:
        one = Holder(1)
        made: Any = weakref.WeakKeyDictionary()
        try:
            made[one]
        except KeyError as error:
            seen = error.args[0]() is one, type(error.args[0])
        return x + 1, seen, made.get(one), made.pop(one, 3)

    captured(f, X)


def test_what_a_weak_container_may_have_lost_is_left_to_cpython() -> None:
    def by_key(x: torch.Tensor) -> Any:
        one = Holder(1)
        counts: Any = weakref.WeakKeyDictionary()
        counts[one] = 1
        del one
        return x + len(counts)

    def by_value(x: torch.Tensor) -> Any:
        made: Any = weakref.WeakValueDictionary()
        made["a"] = Holder(1)
        return x + len(made), made.get("a")

    breaks(by_key, X)
    breaks(by_value, X)


def test_a_weak_container_of_what_has_no_weak_references_is_left_to_cpython() -> None:
    def f(x: torch.Tensor) -> Any:
        try:
            weakref.WeakSet([3])
        except TypeError as error:
            return x + 1, str(error)

    breaks(f, X)


def test_a_weak_container_that_is_returned_holds_nothing_alive() -> None:
    def f(x: torch.Tensor) -> Any:
        one = Holder(1)
        made: Any = weakref.WeakKeyDictionary()
        made[one] = x + 1
        return made, one

    made, one = tracer.compile(f, fullgraph=True)(X)
    assert torch.equal(made[one], X + 1)
    del one
    gc.collect()
    assert len(made) == 0


def test_weak_containers_are_compared_by_cpython() -> None:
    def f(x: torch.Tensor) -> Any:
        one = Holder(1)
        sets = weakref.WeakSet([one]) == weakref.WeakSet([one]), weakref.WeakSet() != weakref.WeakSet([one])
        return x + 1, sets, {one: 1} == weakref.WeakKeyDictionary({one: 1})

    breaks(f, X)


def test_a_weak_container_that_is_iterated_over_a_break_holds_nothing_alive() -> None:
    def f(x: torch.Tensor) -> Any:
        held = [Holder(number) for number in range(4)]
        made: Any = weakref.WeakKeyDictionary((each, 1) for each in held)
        rest = iter(made.items())
        first = next(rest)[1]
        del held
        gc.collect()
        return x + first, len(made) <= 1, next(rest, None)

    check(f, X)
