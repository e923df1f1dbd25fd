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


def penalty_of_a_value(z, w):
    h = z * w
    (gradient,) = torch.autograd.grad((h.sin() + z).sum(), h, create_graph=True)
    return (gradient.norm() - 1).square()


def penalty_of_an_input(z, w):
    (gradient,) = torch.autograd.grad((z.tanh() * w).sum(), z, create_graph=True)
    return (gradient.norm() - 1).square()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [penalty_of_a_value, penalty_of_an_input])
def test_a_gradient_that_flows_beyond_no_input_computed_before_is_captured(program, backend):
    found = []
    for function in (program, tracer.compile(program, backend=backend, fullgraph=True)):
        x, w = leaf(3), leaf(3)
        result = function(x * 2, w)
        result.backward()
        found.append((result.detach(), x.grad, w.grad))
    torch.testing.assert_close(*found, rtol=0, atol=0)


def of_two_inputs(z, y, w):
    first, second = torch.autograd.grad((z * y * w).sum(), (z, y), create_graph=True)
    return (first * second).sum()


def of_an_input_and_a_leaf(z, y, w):
    first, second = torch.autograd.grad((z * y * w).sum(), (z, w), create_graph=True)
    return (first * second).sum()


def of_one_of_two(z, y, w):
    (gradient,) = torch.autograd.grad((z * y).sum(), z, create_graph=True)
    return (gradient * w).sum()


@pytest.mark.parametrize("program", [of_two_inputs, of_an_input_and_a_leaf, of_one_of_two])
def test_a_gradient_of_an_input_that_another_may_be_computed_from_is_left_to_torch(program):
    def make():
        z = leaf(3) * 2
        return (z, z.sin(), leaf(3)), {}

    assert check_made(program, make).break_ids == ["autograd-in-trace"]


def of_a_leaf(z, y, w):
    loss = (z * w).sin().sum()
    (gradient,) = torch.autograd.grad(loss, w, create_graph=True)
    return loss + (gradient * y).sum()


def of_a_leaf_by_backward(z, y, w):
    (z * w).sin().sum().backward(create_graph=True)
    return (w.grad * y).sum()


@pytest.mark.parametrize("program", [of_two_inputs, of_an_input_and_a_leaf, of_one_of_two, of_a_leaf, of_a_leaf_by_backward])
def test_what_is_differentiated_twice_behind_a_break_is_not_compiled(program):
    found = []
    for function in (program, tracer.compile(program, backend="aot_eager")):
        x, w = leaf(3), leaf(3)
        z = x * 2
        result = function(z, z.sin(), w)
        result.backward()
        found.append((result.detach(), x.grad, w.grad))
    torch.testing.assert_close(*found)
