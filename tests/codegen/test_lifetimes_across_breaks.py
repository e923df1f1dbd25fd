"""Neither the output code nor a resume function keeps alive what the program has dropped."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import tracer
from tests.support import breaks, check
from tests.support.finalisers import closing


class Noted:
    pass


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def test_what_a_resume_function_deletes_dies_at_once():
    def fn(x):
        first = Noted()
        alive = weakref.ref(first)  # breaks the graph
        found = [alive() is None]
        del first
        gc.collect(0)  # again
        found.append(alive() is None)
        return x + 1, found

    assert breaks(fn, torch.ones(2)).result[1] == [False, True]


def test_tensor_that_a_resume_function_overwrites_is_freed():
    def fn(x):
        big = x + 1
        alive = weakref.ref(big)
        gc.collect(0)
        big = big.sum()
        gc.collect(0)
        return big, alive() is None

    assert breaks(fn, torch.ones(2)).result[1]


def test_argument_that_a_callee_deletes_dies_at_once():
    def callee(box):
        value = box.pop()
        alive = weakref.ref(value)
        last(value, alive)
        return alive() is None

    def last(value, alive):
        del value
        gc.collect(0)

    def fn(x):
        return x + 1, callee([Noted()])

    check(fn, torch.ones(2))


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


def test_frames_that_tracebacks_show_die_with_the_exception_that_left_an_inlined_call() -> None:
    log: list[str] = []

    def fails() -> None:
        iterator = closing(3, log)
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
        with no_collection():
            traced(X)
        seen = log.copy()
        log.clear()
        f(X)
        assert seen == log != []


def test_what_callers_hold_is_freed_after_a_context_manager_has_ended_across_a_break() -> None:
    """The StopIteration that ends its generator leaves output code with a traceback that is made there and holds the callers."""
    log: list[Any] = []

    @contextlib.contextmanager
    def breaking() -> Any:
        gc.get_count()  # breaks the graph
        yield

    def inner() -> None:
        with breaking():
            pass

    def f(x: torch.Tensor) -> Any:
        iterator = closing(3, log)
        next(iterator)
        inner()
        return x.sin()

    with no_collection():
        tracer.optimize()(f)(X)
    assert log == [("closed", 3)]


class Three:
    """An iterator that ends by raising StopIteration itself."""

    def __init__(self) -> None:
        self.left = 3

    def __iter__(self) -> Three:
        return self

    def __next__(self) -> int:
        self.left -= 1
        if self.left < 0:
            raise StopIteration
        return self.left


def _ends_an_iterator(x: torch.Tensor) -> Any:
    return x * sum([*Three()])


def _closes_a_generator(x: torch.Tensor) -> Any:
    numbers = (n for n in (1, 2))
    scaled = x * next(numbers)
    numbers.close()
    return scaled


@pytest.mark.parametrize("callee", [_ends_an_iterator, _closes_a_generator])
def test_what_callers_hold_is_freed_after_an_exception_that_ended_in_a_traced_call(callee: Any) -> None:
    log: list[Any] = []

    def f(x: torch.Tensor) -> Any:
        iterator = closing(3, log)  # left suspended: CPython runs this frame, and what it calls is compiled
        next(iterator)
        return callee(x)

    with no_collection():
        tracer.optimize()(f)(X)
    assert log == [("closed", 3)]


def _fails(log: list[Any], leaves_a_generator: bool) -> None:
    if leaves_a_generator:
        iterator = closing(3, log)
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
