"""Backward passes inside a traced function whose other arguments have a history."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.support import captured_made, check_made
from tests.variables.test_backward import leaf


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_pass_that_reaches_no_input_computed_before_is_captured(backend):
    def program(x, w):
        y = x * 2
        x.add_(w)
        w.square().sum().backward()
        (other,) = torch.autograd.grad((w * 3).sum(), w)
        return y + x, other

    def make():
        return (leaf(3) * 2, leaf(3)), {}

    captured_made(program, make)
    found = []
    for function in (program, tracer.compile(program, backend=backend, fullgraph=True)):
        x, w = leaf(3), leaf(3)
        result, other = function(x * 2, w)
        result.sum().backward()
        found.append((result.detach(), other, x.grad, w.grad))
    torch.testing.assert_close(*found)


def test_a_pass_from_several_losses_is_captured():
    def program(v, w):
        torch.autograd.backward([v.sum(), (v * w).sum()])
        torch.autograd.backward([v * 2], [torch.ones(3)])
        return v.grad, w.grad

    assert "grad" in captured_made(program, lambda: ((leaf(3), leaf(3)), {})).operations


def test_a_pass_that_reaches_what_an_input_was_before_a_write_is_left_to_torch():
    def program(x, w):
        loss = (x * w).sum()
        x.add_(1)
        loss.backward()
        return w.grad

    assert check_made(program, lambda: ((leaf(3) * 2, leaf(3)), {})).break_ids == ["autograd-in-trace"]


def test_a_pass_beside_a_view_that_autograd_forbids_to_use_is_left_to_torch():
    def program(x, w):
        with torch.inference_mode():
            x[:, 2:].sub_(x[:, :1])
        (w * 2).sum().backward()
        x.add_(1)
        return x, w.grad

    check_made(program, lambda: ((torch.ones(2, 3)[:], leaf(3)), {}))
