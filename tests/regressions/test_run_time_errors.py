"""Operations of the compiled graph that fail when it runs."""

from __future__ import annotations

import torch

import tracer
from tests.support import check, check_made

X = torch.arange(6.0).reshape(2, 3)


def test_an_operation_that_fails_in_a_frame_with_a_break_after_it():
    def f(x, i):
        y = x + 1
        z = x[i]
        tracer.graph_break()
        return y, z

    check(f, X, torch.tensor([0, 1]))
    check(f, X, torch.tensor([0, 5]))


def test_a_handler_of_an_operation_that_fails_in_a_frame_with_a_break():
    def f(x):
        try:
            x.max()
        except RuntimeError as error:
            tracer.graph_break()
            return str(error)

    check(f, torch.zeros(0, 3))


def test_a_negative_constant_to_a_symbolic_power():
    def f(x, n):
        return x, (-7) ** n, (-2) ** x

    for n in (2, 3, 4):
        check_made(f, lambda n=n: ((X, n), {}), dynamic=True)
