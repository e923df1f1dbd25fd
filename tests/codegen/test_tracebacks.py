"""Tracebacks that the output code makes again: the user's files, lines and names, as CPython gives them."""

from __future__ import annotations

import contextlib
import sys
import traceback
from typing import Any

import pytest
import torch

import tracer
from tests.support import breaks, captured, check


def test_the_traceback_of_an_error_that_c_raises_of_a_class_that_cannot_be_instantiated() -> None:
    """Before Python 3.12 it begins with the frame of `__init__`: the one that called C was left before."""
    raising = pytest.importorskip("_testcapi").raise_exception

    class Bad(Exception):
        def __init__(self) -> None:
            raise RuntimeError("cannot be made")

    def names(error: BaseException) -> list[str]:
        found = []
        traceback = error.__traceback__
        while traceback is not None:
            found.append(traceback.tb_frame.f_code.co_name)
            traceback = traceback.tb_next
        return found

    def inner() -> list[str]:
        try:
            raising(Bad, 0)
        except RuntimeError as error:
            return names(error)
        return []

    def f(x: torch.Tensor) -> Any:
        y = x.sin()
        own: list[str] = []
        try:
            raising(Bad, 0)
        except RuntimeError as error:
            own = names(error)
        return y, own, inner()

    checked = check(f, torch.ones(2))
    callers = ([], []) if sys.version_info < (3, 12) else (["f"], ["inner"])
    assert checked.result[1:] == tuple([*names, "__init__"] for names in callers)


X = torch.arange(3.0)


def deep(n):
    if n == 0:
        raise KeyError("bottom")
    deep(n - 1)


def lines(error):
    return [(frame.f_code.co_filename, frame.f_code.co_name, line) for frame, line in traceback.walk_tb(error.__traceback__)]


def test_handled_exceptions_have_their_tracebacks():
    def f(x):
        try:
            deep(2)
        except KeyError as error:
            y = x + 1
            return y, error

    error = captured(f, X).result[1]
    assert lines(error)[-4:] == lines(f(X)[1])
    assert "".join(traceback.format_tb(error.__traceback__)) == "".join(traceback.format_tb(f(X)[1].__traceback__))


def test_exceptions_that_are_raised_again_have_their_tracebacks():
    def inner():
        try:
            deep(1)
        except KeyError as error:
            raise error

    def again():
        try:
            inner()
        except KeyError:
            raise

    def f(x):
        try:
            again()
        except KeyError as error:
            return x + 1, error, error.__traceback__.tb_lineno

    error = captured(f, X).result[1]
    assert lines(error) == lines(f(X)[1])


def test_the_frames_of_a_traceback_stand_where_they_were_left():
    def in_handler():
        try:
            deep(0)
        except KeyError:
            raise ValueError("v")

    def behind_other_clauses():
        try:
            deep(0)
        except TypeError:
            pass

    def behind_finally():
        value = 0
        try:
            deep(value)
        finally:
            value += 1

    def behind_with():
        with contextlib.nullcontext():
            deep(0)

    def f(x):
        errors = []
        for fail in (in_handler, behind_other_clauses, behind_finally, behind_with):
            try:
                fail()
            except (KeyError, ValueError) as error:
                errors.append(error)
        return x + 1, errors

    def stands(errors):
        frames = [list(traceback.walk_tb(error.__traceback__))[-2] for error in errors]
        return [(line, frame.f_lineno, frame.f_code.co_varnames) for frame, line in frames]

    assert stands(captured(f, X).result[1]) == stands(f(X)[1])


@pytest.mark.parametrize("depth", [0, 2])
def test_a_handler_with_a_break_sees_the_traceback(depth):
    def f(x, texts):
        try:
            x = x + 1
            deep(depth)
        except KeyError:
            texts.append(traceback.format_exc())
            x = x * 2
        return x

    breaks(f, X, [])


def test_the_traceback_of_an_exception_that_leaves_is_the_users():
    def callee(x):
        x = x + 1
        tracer.graph_break()
        if x.sum() > 0:
            raise ValueError("v")
        return x

    def f(x):
        x = x * 2
        tracer.graph_break()
        y = callee(x)
        return y

    def seen(function):
        try:
            function(X)
        except ValueError as error:
            return lines(error)[1:]

    compiled = tracer.compile(f, backend="eager")
    for _ in range(2):
        assert seen(compiled) == seen(f)


def test_the_traceback_of_a_failing_graph_is_the_users():
    def f(x, i):
        y = x + 1
        return y[i]

    def seen(function):
        try:
            function(X, torch.tensor([7]))
        except IndexError as error:
            return lines(error)[1:]

    compiled = tracer.compile(f, backend="eager")
    for _ in range(2):
        assert seen(compiled) == seen(f)


BREAKS = """
def f(x, log):
    {0}
    try:
        {1}
        x = x + 1
        with noting(log, {swallow}) as n:
            {2}
            x = x + n
            try:
                {3}
                if {fail}:
                    raise KeyError("k")
                x = x * 2
            except ValueError:
                log.append("not this")
            else:
                {4}
                log.append("else")
            finally:
                {5}
                log.append(repr(sys.exception()))
            x = x - 1
        {6}
    except KeyError as error:
        {7}
        log.append(error.args)
        x = x + 5
    finally:
        {8}
        log.append("end")
    {9}
    return x, log, sys.exception()
"""


class noting:
    def __init__(self, log, swallow):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("enter")
        return 2

    def __exit__(self, *details):
        self.log.append([repr(detail) for detail in details[:2]])
        return self.swallow


@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("swallow", [False, True])
@pytest.mark.parametrize("place", range(10))
def test_the_graph_may_break_at_every_place_of_a_try_and_a_with_block(place, swallow, fail):
    lines = ["tracer.graph_break()" if i == place else "pass" for i in range(10)]
    names = {"noting": noting, "sys": sys, "tracer": tracer}
    exec(BREAKS.format(*lines, swallow=swallow, fail=fail), names)
    reached = place not in ((4, 6) if fail else (7,)) and not (fail and swallow and place == 7)
    checked = check(names["f"], X, [])
    if place == 6 and fail and swallow:
        reached = True
    assert bool(checked.breaks) == reached


def test_a_function_with_a_docstring_stands_in_a_traceback_behind_a_break():
    def documented(values):
        """Python 3.14 marks code whose first constant this is."""
        return values[5]

    def f(x):
        try:
            documented([1])
        except IndexError as error:
            tracer.graph_break()
            return x + 1, [(each.name, each.lineno) for each in traceback.extract_tb(error.__traceback__)]

    breaks(f, X)
