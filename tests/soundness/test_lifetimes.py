"""What the program has dropped is gone when the code after a graph break runs."""

from __future__ import annotations

import weakref

import torch

import tracer
from tests.support import breaks, check

X = torch.arange(6.0).reshape(2, 3)


@tracer.disable
def watched(log, value):
    log.append(weakref.ref(value))


@tracer.disable
def note(log):
    log[:] = [entry if isinstance(entry, bool) else entry() is None for entry in log]


class Noting:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("gone")


@tracer.disable
def noting(log):
    return Noting(log)


def halves(x):
    with torch.no_grad():
        yield x * 2
        yield x * 3


def test_an_intermediate_that_is_dropped_before_a_break():
    def f(x, log):
        y = x * 2
        z = y.sum()
        del y
        tracer.graph_break()
        return z + 1

    graphs = []

    class Watching:
        """A backend whose outputs are watched."""

        def __call__(self, gm, inputs):
            def run(*args):
                outputs = gm(*args)
                graphs.append([weakref.ref(output) for output in outputs])
                if len(graphs) == 2:
                    assert [output() is None for output in graphs[0]] == [False]
                return outputs

            return run

    compiled = tracer.compile(f, backend=Watching())
    assert torch.equal(compiled(X, []), f(X, []))
    assert [output() is None for output in graphs[0]] == [True]


def test_an_operand_of_the_breaking_instruction_dies_with_it():
    def f(x, log):
        y = x + 1
        noting(log)
        log.append("after")
        tracer.graph_break()
        log.append("end")
        return y

    breaks(f, X, [])


def test_what_is_kept_for_its_end_alone_lives_until_the_function_returns():
    def inner(x, log):
        guard = noting(log)  # noqa: F841
        x = x + 1
        tracer.graph_break()
        log.append("working")
        return x * 2

    def f(x, log):
        y = inner(x, log)
        log.append("returned")
        return y

    breaks(f, X, [])


def test_a_mode_that_an_iterator_keeps_ends_with_the_comprehension():
    def f(x):
        x = x.requires_grad_()
        first = [item for _, item in zip(range(1), halves(x))]
        return first, x * 2

    check(f, X)


def test_a_result_that_nobody_takes_dies_at_once():
    def f(x, log):
        watched(log, x + 1)
        note(log)
        return x * 2

    checked = breaks(f, X, [])
    assert checked.breaks


def test_a_tensor_that_a_callee_dropped_is_gone_when_it_returns():
    def inner(x, log):
        y = x + 1
        watched(log, y)
        return x * 2

    def f(x, log):
        z = inner(x, log)
        note(log)
        return z - 1

    breaks(f, X, [])
