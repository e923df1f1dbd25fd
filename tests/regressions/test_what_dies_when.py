"""What the program drops dies when it would die in CPython: neither the hand-over to a resume function nor the trace keeps it."""

from __future__ import annotations

import collections
import gc
import operator
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import tracer
from tests.support import captured_made, check, check_made

X = torch.ones(2)


@pytest.mark.parametrize("traced_further", [True, False])
def test_a_generator_left_by_break_is_closed_before_the_code_behind_the_loop(traced_further: bool) -> None:
    log: list[str] = []

    def closing() -> Iterator[Any]:
        try:
            yield bytearray(b"a")
        finally:
            log.append("closed")

    def f(x: torch.Tensor) -> Any:
        for _ in closing():
            break
        log.append("behind")
        return x.sin() if traced_further else None

    f(X)
    expected = log.copy()
    log.clear()
    tracer.optimize()(f)(X)
    assert log == expected == ["closed", "behind"]


def test_an_object_with_a_finaliser_that_a_call_gave_dies_where_it_is_dropped() -> None:
    log: list[str] = []

    class Finalised:
        def __del__(self) -> None:
            log.append("gone")

    def f(x: torch.Tensor) -> Any:
        Finalised()
        return x.sin(), list(log)

    assert tracer.optimize()(f)(X)[1] == ["gone"]


def test_an_exception_that_the_trace_foresees_keeps_no_argument_alive() -> None:
    log: list[str] = []

    def closing() -> Iterator[int]:
        try:
            yield 1
        finally:
            log.append("closed")

    def f(x: torch.Tensor) -> Any:
        iterator = closing()
        next(iterator)
        print("here")
        iterator
        return missing  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(NameError):
        tracer.optimize()(f)(X)
    assert log == ["closed"]


def _closing(number: int, log: list[Any]) -> Iterator[int]:
    try:
        yield number
        yield number + 1
    finally:
        log.append(("closed", number))


def test_a_generator_in_a_local_that_a_loop_overwrites_is_closed_there() -> None:
    def f(x: torch.Tensor, log: list[Any]) -> Any:
        for number in range(3):
            iterator = _closing(number, log)
            log.append(next(iterator))
            log.append(x.max().item())
            log.append(next(iterator))
        del iterator
        log.append("end")
        return x.sin()

    check(f, X, [])


def test_a_generator_that_two_locals_have_is_closed_when_the_last_of_them_gets_another_value() -> None:
    def f(x: torch.Tensor, log: list[Any]) -> Any:
        one = _closing(1, log)
        next(one)
        tracer.graph_break()
        other = one
        one = None  # type: ignore[assignment]
        log.append("one")
        other = 3  # type: ignore[assignment]  # noqa: F841
        log.append("other")
        return x + 1

    check(f, X, [])


def test_a_generator_in_a_variable_of_a_closure_is_closed_when_that_gets_another_value() -> None:
    def f(x: torch.Tensor, log: list[Any]) -> Any:
        iterator: Any = _closing(1, log)

        def begins_another() -> torch.Tensor:
            nonlocal iterator
            iterator = _closing(2, log)
            log.append("inside")
            next(iterator)
            return x + 1

        next(iterator)
        tracer.graph_break()
        y = begins_another()
        log.append("behind")
        tracer.graph_break()
        del iterator
        log.append("end")
        return y

    check(f, X, [])


def test_an_object_with_a_finaliser_dies_where_its_local_gets_another_value_or_is_deleted() -> None:
    class Finalised:
        def __init__(self, name: str, log: list[Any]) -> None:
            self.name, self.log = name, log

        def __del__(self) -> None:
            self.log.append(f"{self.name} gone")

    def f(x: torch.Tensor, log: list[Any]) -> Any:
        value = Finalised("first", log)
        log.append("a")
        value = Finalised("second", log)
        log.append("b")
        del value
        log.append("c")
        return x + 1

    check(f, X, [])


def test_what_a_closure_of_the_region_holds_dies_with_the_call() -> None:
    class Finalised:
        def __init__(self, name: str, log: list[Any]) -> None:
            self.name, self.log = name, log

        def __del__(self) -> None:
            self.log.append(f"{self.name} gone")

    def f(x: torch.Tensor, log: list[Any]) -> Any:
        value = Finalised("first", log)

        def name() -> str:
            return value.name

        name()
        tracer.graph_break()
        log.append("a")
        value = Finalised("second", log)
        log.append(name())
        return x + 1

    check(f, X, [])


class _Finalised:
    def __init__(self, log: list[Any]) -> None:
        self.log = log

    def __del__(self) -> None:
        self.log.append("gone")


def test_what_a_dropped_local_leads_to_dies_with_it() -> None:
    class Box:
        pass

    def iterators(x: torch.Tensor, log: list[Any]) -> Any:
        pairs: Any = zip(_closing(1, log), _closing(2, log))
        next(pairs)
        tracer.graph_break()
        log.append("a")
        del pairs
        log.append("b")
        return x + 1

    def attributes(x: torch.Tensor, log: list[Any]) -> Any:
        box: Any = Box()
        box.iterator = _closing(1, log)
        next(box.iterator)
        tracer.graph_break()
        log.append("a")
        box = None
        log.append("b")
        return x + 1

    def closures(x: torch.Tensor, log: list[Any]) -> Any:
        def counting() -> Any:
            iterator = _closing(1, log)
            return lambda: next(iterator)

        following: Any = counting()
        following()
        tracer.graph_break()
        log.append("a")
        following = None
        log.append("b")
        return x + 1

    for f in (iterators, attributes, closures):
        check(f, X, [])


def test_what_only_a_local_holds_that_is_read_no_more_lives_as_long_as_it_does() -> None:
    def overwritten(x: torch.Tensor, log: list[Any]) -> Any:
        pair: Any = (_Finalised(log), 2)
        tracer.graph_break()
        log.append("a")
        pair = None  # noqa: F841
        log.append("b")
        return x + 1

    def left(x: torch.Tensor, log: list[Any]) -> Any:
        pair: Any = {"key": (_Finalised(log), 2)}  # noqa: F841
        tracer.graph_break()
        log.append("a")
        tracer.graph_break()
        log.append("b")
        return x + 1

    for f in (overwritten, left):
        check(f, X, [])


class _Box:
    def __init__(self, held: Any = None) -> None:
        self.held = held


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
    (lambda it: _Box(it), lambda box: setattr(box, "held", None)),
    (lambda it: _Box(it), lambda box: delattr(box, "held")),
    (lambda it: _Box(_Box([it])), lambda box: setattr(box, "held", None)),
    (lambda it: _Box(it), lambda box: box.__dict__.update(held=2)),
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
        value: Any = _Finalised(log) if finalised else _closing(1, log)
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
        return (X.clone(), [_closing(1, log), _Finalised(log)], log), {}

    captured_made(f, make)


def test_a_local_that_is_read_no_more_is_looked_at_in_each_call() -> None:
    def f(x: torch.Tensor, make: Any, log: list[Any]) -> Any:
        value = make(log)
        tracer.graph_break()
        log.append("a")
        value = None  # noqa: F841
        log.append("b")
        return x + 1

    def started(log: list[Any]) -> Any:
        iterator = _closing(1, log)
        next(iterator)
        return iterator

    traced = tracer.optimize()(f)
    for make in (lambda _: 3, started, lambda _: [1], lambda log: [started(log)], _Finalised, lambda _: X, _Box, started):
        expected: list[Any] = []
        seen: list[Any] = []
        f(X, make, expected)
        traced(X, make, seen)
        assert seen == expected


@pytest.mark.parametrize("kind", [weakref.ref, weakref.finalize])
@pytest.mark.parametrize(
    "put, change",
    [
        (_Box, lambda box: setattr(box, "held", None)),
        (_Box, lambda box: box.held is not None and setattr(box, "held", None)),
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
        held = _Box()
        kept = kind(held, lambda *_, log=log: log.append("gone"))
        holder = put(held)
        del held
        call(X, holder, log)
        logs.append(log)
        del kept
    assert logs[0] == logs[1] == ["before", "gone", 2]


def test_what_a_weak_reference_to_a_local_calls_is_called_where_it_is_given_up() -> None:
    def f(x: torch.Tensor, log: list[Any]) -> Any:
        value: Any = _Box()
        reference = weakref.ref(value, lambda _: log.append("gone"))
        tracer.graph_break()
        log.append("a")
        value = None
        log.append("b")
        return x + 1, reference() is None

    check(f, X, [])


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


def test_frames_that_tracebacks_show_die_with_the_exception_that_left_an_inlined_call() -> None:
    log: list[str] = []

    def fails() -> None:
        iterator = _closing(3, log)
        next(iterator)
        raise LookupError

    def calls() -> None:
        fails()

    def f(x: torch.Tensor) -> Any:
        try:
            calls()
        except LookupError:
            pass
        return x.sin()

    traced = tracer.optimize()(f)
    for _ in range(3):
        log.clear()
        gc.disable()
        try:
            traced(X)
        finally:
            gc.enable()
        seen = log.copy()
        log.clear()
        f(X)
        assert seen == log != []


def _fails(log: list[Any], leaves_a_generator: bool) -> None:
    if leaves_a_generator:
        iterator = _closing(3, log)
        next(iterator)
    raise LookupError


def _behind_a_named_handler(x: torch.Tensor, log: list[Any], leaves_a_generator: bool) -> Any:
    try:
        _fails(log, leaves_a_generator)
    except LookupError as error:
        log.append(type(error))
    log.append("after")
    return x.sin()


def _behind_a_nameless_handler(x: torch.Tensor, log: list[Any], leaves_a_generator: bool) -> Any:
    try:
        _fails(log, leaves_a_generator)
    except LookupError:
        log.append("in")
    log.append("after")
    return x.sin()


@pytest.mark.parametrize("f", [_behind_a_named_handler, _behind_a_nameless_handler])
def test_what_the_frames_of_a_handled_exception_hold_dies_at_the_end_of_the_handler(f: Any) -> None:
    traced = tracer.optimize()(f)
    for leaves_a_generator in (True, False, True):
        log: list[Any] = []
        expected: list[Any] = []
        traced(X, log, leaves_a_generator)
        f(X, expected, leaves_a_generator)
        assert log == expected


@tracer.disable
def _fails_outside(log: list[Any], leaves_a_generator: bool) -> None:
    _fails(log, leaves_a_generator)


@pytest.mark.parametrize("first", [True, False])
def test_an_exception_of_a_function_that_is_not_traced_is_asked_anew_what_its_frames_hold(first: bool) -> None:
    def f(x: torch.Tensor, log: list[Any], held: list[bool]) -> Any:
        try:
            _fails_outside(log, held.pop())
        except LookupError:
            log.append("in")
        log.append("after")
        return x.sin()

    traced = tracer.optimize()(f)
    for leaves_a_generator in (first, not first, first):
        log: list[Any] = []
        expected: list[Any] = []
        traced(X, log, [leaves_a_generator])
        f(X, expected, [leaves_a_generator])
        assert log == expected
