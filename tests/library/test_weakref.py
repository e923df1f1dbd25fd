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
