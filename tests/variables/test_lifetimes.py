"""What a local holds dies where CPython lets it go: where the local is overwritten or deleted, or at the end of the call."""

from __future__ import annotations

import weakref
from typing import Any

import torch

import tracer
from tests.support import check
from tests.support.finalisers import Box, Finalised, closing

X = torch.ones(2)


def test_a_generator_in_a_local_that_a_loop_overwrites_is_closed_there() -> None:
    def f(x: torch.Tensor, log: list[Any]) -> Any:
        for number in range(3):
            iterator = closing(number, log)
            log.append(next(iterator))
            log.append(x.max().item())
            log.append(next(iterator))
        del iterator
        log.append("end")
        return x.sin()

    check(f, X, [])


def test_a_generator_that_two_locals_have_is_closed_when_the_last_of_them_gets_another_value() -> None:
    def f(x: torch.Tensor, log: list[Any]) -> Any:
        one = closing(1, log)
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
        iterator: Any = closing(1, log)

        def begins_another() -> torch.Tensor:
            nonlocal iterator
            iterator = closing(2, log)
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


def test_what_a_dropped_local_leads_to_dies_with_it() -> None:
    class Box:
        pass

    def iterators(x: torch.Tensor, log: list[Any]) -> Any:
        pairs: Any = zip(closing(1, log), closing(2, log))
        next(pairs)
        tracer.graph_break()
        log.append("a")
        del pairs
        log.append("b")
        return x + 1

    def attributes(x: torch.Tensor, log: list[Any]) -> Any:
        box: Any = Box()
        box.iterator = closing(1, log)
        next(box.iterator)
        tracer.graph_break()
        log.append("a")
        box = None
        log.append("b")
        return x + 1

    def closures(x: torch.Tensor, log: list[Any]) -> Any:
        def counting() -> Any:
            iterator = closing(1, log)
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
        pair: Any = (Finalised(log), 2)
        tracer.graph_break()
        log.append("a")
        pair = None  # noqa: F841
        log.append("b")
        return x + 1

    def left(x: torch.Tensor, log: list[Any]) -> Any:
        pair: Any = {"key": (Finalised(log), 2)}  # noqa: F841
        tracer.graph_break()
        log.append("a")
        tracer.graph_break()
        log.append("b")
        return x + 1

    for f in (overwritten, left):
        check(f, X, [])


def test_a_local_that_is_read_no_more_is_looked_at_in_each_call() -> None:
    def f(x: torch.Tensor, make: Any, log: list[Any]) -> Any:
        value = make(log)
        tracer.graph_break()
        log.append("a")
        value = None  # noqa: F841
        log.append("b")
        return x + 1

    def started(log: list[Any]) -> Any:
        iterator = closing(1, log)
        next(iterator)
        return iterator

    traced = tracer.optimize()(f)
    for make in (lambda _: 3, started, lambda _: [1], lambda log: [started(log)], Finalised, lambda _: X, Box, started):
        expected: list[Any] = []
        seen: list[Any] = []
        f(X, make, expected)
        traced(X, make, seen)
        assert seen == expected


def test_what_a_weak_reference_to_a_local_calls_is_called_where_it_is_given_up() -> None:
    def f(x: torch.Tensor, log: list[Any]) -> Any:
        value: Any = Box()
        reference = weakref.ref(value, lambda _: log.append("gone"))
        tracer.graph_break()
        log.append("a")
        value = None
        log.append("b")
        return x + 1, reference() is None

    check(f, X, [])
