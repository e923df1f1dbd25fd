"""The order of a set follows from its whole history: a set that the trace made iterates as the one that CPython makes, also
after changes that the program makes later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tracer
from tests.support import breaks, captured

X = torch.ones(3)
_LATER = (100, 8, 16, 40, 33)  # their places in a table depend on its size


def _layout(value: Any) -> list[Any]:
    """The order of a set now and after changes that make its table grow or shrink."""
    seen = [list(value), value.__sizeof__(), list(set(value))]
    if isinstance(value, set):
        for number in _LATER:
            value.add(number)
        seen.append(list(value))
        while value:
            seen.append(value.pop())
    return seen


@pytest.mark.parametrize(
    "make",
    [
        lambda: set(range(3)).union([7, 23]).copy(),
        lambda: {0, 1, 2, 16, 7},
        lambda: {0, 1, 2}.union({7, 16}),
        lambda: {0, 1, 2} | dict.fromkeys([16, 7]).keys(),
        lambda: dict.fromkeys([16, 7, 0, 1]).keys() - {1, 5},
        lambda: dict.fromkeys([16, 7, 0, 1]).keys() & [1, 16, 0],
        lambda: frozenset([17, 9, 1]).symmetric_difference(range(29)),
        lambda: set(dict.fromkeys(range(0, 64, 8))).intersection([56, 0, 48]),
        lambda: {1, 9, 17}.difference({9}, [4]),
    ],
)
def test_a_set_made_by_the_trace_has_the_table_of_the_one_that_cpython_makes(make: Callable[[], Any]) -> None:
    seen = captured(lambda x: (x + 1, make()), X)
    assert _layout(seen.result[1]) == _layout(make())


def test_a_set_that_is_changed_repeatedly_keeps_its_table() -> None:
    def f(x: torch.Tensor) -> Any:
        made = {3, 11}
        made.update(range(19), {40, 24})
        made.discard(3)
        copied = made.copy()
        made.difference_update(copied - {16, 0})
        made ^= {16, 48}
        first = made.pop()
        made.add(56)
        return x + 1, first, made, copied

    seen, expected = captured(f, X).result, f(X)
    assert list(map(_layout, seen[2:])) == list(map(_layout, expected[2:]))
    assert seen[1] == expected[1]


def test_a_subclass_of_set_keeps_its_table() -> None:
    class Own(set[int]):
        def update(self, *others: Any) -> None:
            super().update({0, 8}, *others)

    def f(x: torch.Tensor) -> Any:
        own = Own([16])
        own.update([1, 24])
        own.discard(8)
        return x + 1, own

    assert _layout(captured(f, X).result[1]) == _layout(f(X)[1])


def test_a_set_made_from_one_that_existed_has_a_table_made_from_that() -> None:
    existing = set(range(40)) - set(range(3, 39))  # a table of many places

    def f(x: torch.Tensor) -> Any:
        return x + 1, existing | {16}, existing.copy(), frozenset(existing)

    assert list(map(_layout, tracer.optimize()(f)(X)[1:])) == list(map(_layout, f(X)[1:]))


def test_a_set_that_existed_changes_as_in_cpython() -> None:
    def make() -> set[int]:
        return {0, 1, 9}

    def f(x: torch.Tensor, existing: set[int]) -> torch.Tensor:
        existing.update(dict.fromkeys([16, 17]))
        existing -= {0, 5}
        existing.symmetric_difference_update([33, 1])
        return x + 1

    plain, traced = make(), make()
    f(X, plain)
    tracer.optimize()(f)(X, traced)
    assert _layout(traced) == _layout(plain)


@pytest.mark.parametrize("early", [True, False])
def test_a_set_and_one_made_from_it_change_in_graphs_of_their_own(early: bool) -> None:
    def f(x: torch.Tensor, existing: set[int]) -> Any:
        y = x.sin()
        copied = existing.copy() if early else None
        existing.add(16)
        copied = copied or existing.copy()
        return y.cos(), copied, existing

    checked = breaks(f, X, {0, 1, 9})
    assert checked.operations == ["sin", "cos"]


def test_a_set_made_from_one_that_changes_can_be_asked_for_its_elements() -> None:
    def f(x: torch.Tensor, existing: set[int]) -> Any:
        existing.add(16)
        return x + len(existing - {1}), 16 in existing | {3}

    captured(f, X, {0, 1, 9})


@pytest.mark.parametrize("elements", [{3, 1, 40, 17}, {"b", "a", "c", "z"}], ids=["ints", "strings"])
def test_what_does_not_depend_on_the_order_is_asked_of_a_set_that_changes(elements: set[Any]) -> None:
    added = type(min(elements))(100)

    def f(x: torch.Tensor, existing: set[Any]) -> Any:
        first = min(existing)
        existing.discard(first)
        existing.add(added)
        return x + 1, first, min(existing), max(existing), sorted(existing, reverse=True), any(existing), all(existing)

    captured(f, X, elements)


def test_ints_are_summed_in_any_order_and_floats_in_that_of_the_set() -> None:
    def f(x: torch.Tensor, existing: set[Any]) -> Any:
        existing.add(2)
        return x + 1, sum(existing)

    captured(f, X, {1, 40, 17})
    breaks(f, X, {1e16, 1.0, -1e16})


def test_a_set_that_loses_elements_keeps_its_order() -> None:
    def f(x: torch.Tensor, existing: set[int]) -> Any:
        for element in (9, 33, 5):
            existing.discard(element)
        existing.remove(16)
        return x + 1, list(existing), [element * 2 for element in existing], max(existing, key=lambda element: element % 8)

    captured(f, X, set(range(0, 300, 3)) - {3} | {16, 8})


def test_a_set_in_another_order_is_traced_anew() -> None:
    def f(x: torch.Tensor, existing: set[int]) -> Any:
        existing.discard(1)
        return x + 1, list(existing)

    traced = tracer.compile(f, fullgraph=True)
    for elements in ([8, 0, 1], [0, 8, 1], [8, 0, 1]):
        assert traced(X, set(elements))[1] == f(X, set(elements))[1]
    assert traced.stats()["compiles"] == 2


def test_classes_and_functions_of_a_set_that_existed_come_in_its_order() -> None:
    class Twice:
        by = 2.0

    class Thrice:
        by = 3.0

    def more(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    classes, functions, kinds = {Twice, Thrice, int}, {more, torch.sin}, {tuple, str, int, float}

    def f(x: torch.Tensor) -> Any:
        for cls in classes:
            x = x * getattr(cls, "by", 0.5)
            for function in functions:
                x = function(x)
        return x, list(classes), f"one of {kinds}"

    traced = tracer.compile(f, fullgraph=True, backend="eager")
    for _ in range(2):
        assert str(traced(X)) == str(f(X))
        classes.discard(int)


def test_a_set_of_classes_in_another_order_is_traced_anew() -> None:
    made = [type(f"Made{i}", (), {}) for i in range(20)]
    pairs = [(a, b) for a in made for b in made if list({a, b}) != list({b, a})]  # two that would lie at one place

    def f(x: torch.Tensor, classes: set[type]) -> Any:
        return x + 1, list(classes)

    traced = tracer.compile(f, fullgraph=True, backend="eager")
    a, b = pairs[0]
    for elements in ([a, b], [b, a], [a, b]):
        assert traced(X, set(elements))[1] == f(X, set(elements))[1]
    assert traced.stats()["compiles"] == 2


def test_equal_elements_are_those_that_cpython_keeps() -> None:
    def f(x: torch.Tensor) -> Any:
        sets = {1, 2} & {True}, {1} & {True, 5}, {1}.intersection([True, 1]), {1} | {True}, {1, 3} ^ {True}
        return x + 1, [list(map(repr, made)) for made in sets]

    captured(f, X)


def test_a_number_that_varies_is_an_element_with_the_value_that_it_has() -> None:
    def f(x: torch.Tensor, n: int) -> Any:
        sets = {n, 1, 5}, {1, 2} | {n}, frozenset([n, 4]), {n} ^ {3}
        added = {1, 5}
        added.add(n)
        return x * n, [sorted(made) for made in (*sets, added)], [list(made) for made in sets], {n: n}, max({n, 2})

    traced = tracer.compile(f, fullgraph=True, dynamic=True)
    for n in (3, 4, 5, -2):
        assert traced(X, n)[1:] == f(X, n)[1:]
