"""A value that a change replaces or removes (an item, an attribute, a global) dies at the change, and finalisers run there, as in
CPython."""

from __future__ import annotations

import collections
import operator
import weakref
from typing import Any

import pytest
import torch

import tracer
from tests.support import captured_made, check_made
from tests.support.finalisers import Box, Finalised, closing

X = torch.ones(2)


class _Slotted:
    __slots__ = ("held",)


_HELD: Any = None


def _store_global() -> None:
    global _HELD
    _HELD = None


def _delete_global() -> None:
    global _HELD
    del _HELD


def _with(kind: type, value: Any) -> Any:
    made = kind()
    made.held = value
    return made


GIVEN_UP: list[tuple[Any, Any]] = [
    (lambda it: {"k": it}, lambda d: d.__setitem__("k", 2)),
    (lambda it: {"k": it}, lambda d: d.__delitem__("k")),
    (lambda it: {"k": it}, lambda d: d.pop("k") and None),
    (lambda it: {"k": it}, lambda d: d.popitem() and None),
    (lambda it: {"k": it}, lambda d: d.update(k=2)),
    (lambda it: {"k": [1, (it,)]}, lambda d: d.clear()),
    (lambda it: [1, it], lambda r: r.clear()),
    (lambda it: [1, it], lambda r: r.pop() and None),
    (lambda it: [1, {"k": it}], lambda r: r.pop() and None),
    (lambda it: [1, {"k": it}], lambda r: len(r[1]) and r.pop() and None),
    (lambda it: [1, it], lambda r: r.remove(1) or r.__delitem__(0)),
    (lambda it: [1, it], lambda r: r.__setitem__(1, 2)),
    (lambda it: [1, it], lambda r: r.__setitem__(slice(1, 2), [3])),
    (lambda it: [1, it], lambda r: r.__delitem__(slice(1, 2))),
    (lambda it: [1, it], lambda r: operator.imul(r, 0) and None),
    (lambda it: collections.deque([1, it], 2), lambda r: r.appendleft(1)),
    (lambda it: collections.deque([1, it]), lambda r: r.clear()),
    (lambda it: collections.deque([1, it]), lambda r: r.pop() and None),
    (lambda it: {it}, lambda s: s.clear()),
    (lambda it: {it}, lambda s: s.pop() and None),
    (lambda it: Box(it), lambda box: setattr(box, "held", None)),
    (lambda it: Box(it), lambda box: delattr(box, "held")),
    (lambda it: Box(Box([it])), lambda box: setattr(box, "held", None)),
    (lambda it: Box(it), lambda box: box.__dict__.update(held=2)),
    (lambda it: _with(_Slotted, it), lambda box: setattr(box, "held", None)),
    (lambda it: globals().__setitem__("_HELD", it), lambda _: _store_global()),
    (lambda it: globals().__setitem__("_HELD", it), lambda _: _delete_global()),
]


@pytest.mark.parametrize("finalised", [False, True])
@pytest.mark.parametrize("put, change", GIVEN_UP)
def test_what_a_change_gives_up_dies_at_the_change(put: Any, change: Any, finalised: bool) -> None:
    def f(x: torch.Tensor, holder: Any, log: list[Any]) -> Any:
        y = x + 1
        log.append("before")
        change(holder)
        log.append("behind")
        return y * 2

    def make() -> Any:
        log: list[Any] = []
        value: Any = Finalised(log) if finalised else closing(1, log)
        if not finalised:
            next(value)
        return (X.clone(), put(value), log), {}

    found = check_made(f, make)
    assert found.breaks


HARMLESS = [lambda r: r.append(1), lambda r: r.insert(0, 1), lambda r: r.reverse(), lambda r: r.extend([2])]


@pytest.mark.parametrize("change", HARMLESS)
def test_a_change_that_gives_nothing_up_breaks_no_graph(change: Any) -> None:
    def f(x: torch.Tensor, held: list[Any], log: list[Any]) -> Any:
        change(held)
        log.append("behind")
        return x + 1

    def make() -> Any:
        log: list[Any] = []
        return (X.clone(), [closing(1, log), Finalised(log)], log), {}

    captured_made(f, make)


@pytest.mark.parametrize("kind", [weakref.ref, weakref.finalize])
@pytest.mark.parametrize(
    "put, change",
    [
        (Box, lambda box: setattr(box, "held", None)),
        (Box, lambda box: box.held is not None and setattr(box, "held", None)),
        (lambda held: {"k": held}, lambda d: d.clear()),
        (lambda held: [held], lambda items: items.__setitem__(0, 2)),
    ],
)
def test_what_weak_references_call_is_called_where_their_object_is_given_up(kind: Any, put: Any, change: Any) -> None:
    def f(x: torch.Tensor, holder: Any, log: list[Any]) -> Any:
        log.append("before")
        change(holder)
        log.append(len(log))
        return x + 1

    logs = []
    for call in (f, tracer.optimize()(f)):
        log: list[Any] = []
        held = Box()
        kept = kind(held, lambda *_, log=log: log.append("gone"))
        holder = put(held)
        del held
        call(X, holder, log)
        logs.append(log)
        del kept
    assert logs[0] == logs[1] == ["before", "gone", 2]


def test_an_attribute_that_is_stored_asks_the_object_for_nothing_while_tracing():
    asked = []

    class Watching:
        def __getattribute__(self, name):
            asked.append(name)
            return object.__getattribute__(self, name)

    def fn(x, watching):
        watching.n = 1
        return x + 1

    traced = tracer.compile(fn, backend="eager")
    traced(torch.ones(2), Watching())
    assert not asked
