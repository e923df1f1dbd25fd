"""A graph that begins in a `no_grad` block, behind a break, records what follows the block."""

from __future__ import annotations

import pytest
import torch

import tracer

BACKENDS = ["aot_eager", pytest.param("inductor", marks=pytest.mark.full)]


def a_view_of_an_input(x, y):
    with torch.no_grad():
        tracer.graph_break()
    return y[:]


def a_view_beside_what_is_not_recorded(x, y):
    with torch.no_grad():
        tracer.graph_break()
        z = x * 2
    return y.t(), z, y * z


def a_write_to_an_input(x, y):
    with torch.no_grad():
        tracer.graph_break()
    x += y
    return x * y


def a_view_of_a_written_input(x, y):
    with torch.no_grad():
        tracer.graph_break()
    x.add_(y)
    return x.t().t()


def a_write_that_is_not_recorded(x, y):
    with torch.no_grad():
        tracer.graph_break()
        x.add_(1)
    return x * y


def a_parameter_that_is_written_to(x, y):
    with torch.no_grad():
        tracer.graph_break()
        y.add_(1)
    return x * y


def outcome(run):
    x, y = torch.ones(2, 3, requires_grad=True), torch.full((2, 3), 3.0, requires_grad=True)
    computed = x * 1
    result = run(computed, y)
    first = result[0] if isinstance(result, tuple) else result
    state = first.requires_grad, first.is_leaf, computed.grad_fn is not None
    first.sum().backward()
    return state, first.detach(), x.grad, y.grad, computed.detach()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "program",
    [
        a_view_of_an_input,
        a_view_beside_what_is_not_recorded,
        a_write_to_an_input,
        a_view_of_a_written_input,
        a_write_that_is_not_recorded,
        a_parameter_that_is_written_to,
    ],
    ids=lambda program: program.__name__,
)
def test_what_follows_a_no_grad_block_is_recorded(program, backend):
    compiled = tracer.compile(program, backend=backend)
    for _ in range(2):
        (state, *seen), (expected_state, *expected) = outcome(compiled), outcome(program)
        assert state == expected_state
        for one, other in zip(seen, expected, strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                torch.testing.assert_close(one, other)
