"""Functions of the program that look at frames: those that the trace has entered do not exist behind a break further in."""

from __future__ import annotations

import inspect
import sys

import torch

from tests.support import check

X = torch.ones(3)


def caller_and_its_line():
    frame = sys._getframe(1)
    return frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno


def own_and_caller(value):
    return sys._getframe().f_code.co_name, sys._getframe().f_back.f_code.co_name, sorted(sys._getframe().f_locals)


def test_a_function_sees_its_own_frame():
    def f(x):
        y = x * 2
        return y, inspect.currentframe().f_code.co_name, sorted(sys._getframe(0).f_locals)

    check(f, X)


def test_an_inlined_function_sees_its_caller():
    def f(x):
        y = x + 1
        return y * 2, caller_and_its_line()

    check(f, X)


def test_a_function_two_calls_further_in_sees_all_frames():
    def between(x):
        return x * 2, own_and_caller(3), caller_and_its_line()

    def f(x):
        return between(x + 1)

    check(f, X)


def test_executed_code_reads_the_locals_of_the_frame():
    def fn(x):
        doubled = x * 2
        breaks_here = id(doubled) > 0
        names = {}  # noqa: F841  (read by the code below)
        exec("names['found'] = float(doubled.sum())")
        return doubled + eval("names['found']") + breaks_here

    check(fn, torch.ones(2))
