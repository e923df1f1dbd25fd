"""A graph break with several frames open: each resumes with its locals, its cells, its blocks and what its stack holds."""

from __future__ import annotations

import contextlib

import pytest
import torch

import tracer
from tests.support import breaks

X = torch.linspace(-1, 1, 4)


def innermost(x):
    y = x * 2
    tracer.graph_break()
    return y + 1


def in_the_middle(x, log):
    z = x + 1
    result = [z, log.append("before"), innermost(z), log.append("after")]
    return result, z


def three_frames(x):
    log = []
    return in_the_middle(x.sin(), log), log, x.cos()


def values_below_the_call_on_the_stack(x):
    return {"a": x + 1, "b": (x.sin(), innermost(x), x.shape[0] * 3)}, f"{x.ndim} {innermost(x).ndim}"


def cells_of_a_frame_and_of_its_callee(x):
    total = x * 0

    def add(y):
        nonlocal total
        total = total + y
        tracer.graph_break()
        total = total * 2
        return lambda: total

    read = add(x)
    again = add(x + 1)
    return read(), again(), total


def handlers_of_two_frames(x):
    def fails(y):
        try:
            tracer.graph_break()
            raise KeyError("inside")
        except ValueError:
            return y

    try:
        return fails(x + 1)
    except KeyError as error:
        return x * 2, str(error)


def an_exception_that_is_being_handled(x):
    try:
        raise ValueError("words")
    except ValueError as error:
        y = innermost(x)
        try:
            raise KeyError("other") from error
        except KeyError as second:
            return y, repr(second.__cause__), second.__context__ is error


def contexts_that_are_open(x):
    log = []

    @contextlib.contextmanager
    def noted(name):
        log.append(f"{name} begins")
        try:
            yield name
        finally:
            log.append(f"{name} ends")

    with noted("outer") as outer, torch.no_grad():
        with noted("inner"):
            y = innermost(x)
        return y, torch.is_grad_enabled(), outer, log


def a_loop_over_an_iterator_half_way(x):
    found = []
    for number, row in enumerate([x, x + 1, x + 2]):
        if number == 1:
            row = innermost(row)
        found.append(row * number)
    return found


def a_call_with_keywords(x):
    def callee(a, *rest, scale=1, **more):
        tracer.graph_break()
        return a * scale + len(rest), rest, more

    return callee(x + 1, 2, x, scale=3, other=x.sin())


PROGRAMS = (
    three_frames, values_below_the_call_on_the_stack, cells_of_a_frame_and_of_its_callee, handlers_of_two_frames,
    an_exception_that_is_being_handled, contexts_that_are_open, a_loop_over_an_iterator_half_way, a_call_with_keywords,
)  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_open_frame_goes_on_where_it_stood(program):
    assert len(breaks(program, X).graphs) >= 1


def test_each_break_of_a_callee_that_is_called_twice_resumes_behind_its_own_call():
    def fn(x):
        first = innermost(x)
        second = innermost(first)
        return first - second, second

    assert len(breaks(fn, X).graphs) >= 3
