"""What the program drops dies when it would die in CPython: neither the hand-over to a resume function nor the trace keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import tracer

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
