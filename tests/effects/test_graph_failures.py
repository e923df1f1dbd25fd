"""Where a compiled graph raises and the program does not, the program's result is given, and that is logged."""

from __future__ import annotations

import logging

import pytest
import torch

import tracer
from tests.support import check


def broken_backend(gm, _):
    def graph(*inputs):
        raise KeyError("no kernel of that name")

    return graph


def make_program(appends):
    def without_effects(x):
        return x * 2

    def with_effects(x, seen=[]):
        seen.append(1)
        return x * 2

    return with_effects if appends else without_effects


def records(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize("appends", [False, True], ids=["no frame between", "output code"])
def test_a_graph_that_raises_where_the_program_does_not_is_logged_once(caplog, appends):
    program = make_program(appends)
    compiled = tracer.compile(program, backend=broken_backend)
    for _ in range(3):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    (text,) = records(caplog)
    line = program.__code__.co_firstlineno
    assert f"{program.__qualname__} ({__file__}:{line}) raised KeyError: 'no kernel of that name'" in text
    assert "compare_with_eager" in text


@pytest.mark.parametrize("appends", [False, True], ids=["no frame between", "output code"])
def test_what_the_program_raises_as_its_graph_does_is_not_logged(caplog, appends):
    def f(x, i, seen):
        if appends:
            seen.append(1)
        return x[i] + 1

    check(f, torch.ones(3), torch.tensor([0, 7]), [])
    compiled = tracer.compile(f)
    compiled(torch.ones(3), torch.tensor([0, 1]), [])
    for _ in range(2):
        with pytest.raises(IndexError):
            compiled(torch.ones(3), torch.tensor([0, 7]), [])
    assert not records(caplog)


def test_an_error_that_the_program_handles_is_logged_as_what_costs_two_runs(caplog):
    def f(x, i):
        try:
            y = x[i]
        except IndexError:
            y = x.sum()
        return y * 2

    compiled = tracer.compile(f)
    compiled(torch.ones(3), torch.tensor([0, 1]))
    assert compiled(torch.ones(3), torch.tensor([0, 7])) == 6
    (text,) = records(caplog)
    assert "IndexError: index 7 is out of bounds" in text and "handles this error itself" in text
