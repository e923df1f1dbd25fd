"""Dtypes that a kernel refuses are refused while tracing, in its own words."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.support import captured, check
from tracer.graph.fakes.fake_tensors import FakeWorld
from tracer.operators.facts import facts_of
from tracer.operators.probes import check_dtypes, may_refuse, run_on_zeros
from tracer.sources.roots import LocalSource

F = torch.nn.functional
SINGLE, DOUBLE = torch.ones(2, 2), torch.ones(2, 2, dtype=torch.float64)

REFUSED = [
    lambda x, y: x @ y,
    lambda x, y: F.linear(x, y),
    lambda x, y: torch.addmm(x, x, y),
]
REFUSED_BY_FAKES_TOO = [
    lambda x, y: torch.bmm(x[None], y[None]),
    lambda x, y: torch.mv(x, y[0]),
    lambda x, y: F.conv1d(x[None], y[:, :, None]),
    lambda x, y: torch.linalg.solve(x + torch.eye(2), y),
]
TAKEN = [
    lambda x, y: x + y,
    lambda x, y: torch.cat([x, y]),
    lambda x, y: torch.stack([x, y]),
    lambda x, y: torch.where(x > 0, x, y),
    lambda x, y: x.gather(0, y.long()),
    lambda x, y: F.embedding(y.long(), x),
    lambda x, y: x.masked_fill(y > 0, 2.0),
    lambda x, y: (x > 0)[:, y[0].long()],
    lambda x, y: (x > 0)[y.long()],
]


@pytest.mark.parametrize("program", REFUSED)
def test_what_a_kernel_refuses_raises_while_tracing(program):
    found = check(program, SINGLE, DOUBLE)
    assert isinstance(found.error, RuntimeError)
    assert not found.graphs


@pytest.mark.parametrize("program", REFUSED_BY_FAKES_TOO)
def test_what_the_fake_form_refuses_too_raises_as_ever(program):
    assert isinstance(check(program, SINGLE, DOUBLE).error, RuntimeError)


@pytest.mark.parametrize("program", TAKEN)
def test_what_a_kernel_takes_is_captured(program):
    captured(program, SINGLE, DOUBLE)


def test_an_operator_that_fails_on_one_element_for_another_reason_is_not_refused():
    check_dtypes(torch.ops.aten.embedding.default, (torch.ones(3, 2), torch.zeros(2, dtype=torch.int64)), {})


def test_an_operator_of_a_backward_pass_is_not_tried_on_one_element_of_a_workspace():
    """It would end the process."""
    workspace = torch.ones(1, dtype=torch.uint8)
    assert not may_refuse(facts_of(torch.ops.aten.mkldnn_rnn_layer_backward.default), (SINGLE, workspace), {})

    def fn(lstm, x):
        lstm(x)[0].sum().backward()
        return lstm.weight_ih_l0.grad

    captured(fn, torch.nn.LSTM(2, 3, num_layers=2), torch.ones(4, 1, 2))


REFUSED_BY_ELEMENTS = [
    lambda x: x - True,
    lambda x: True - x,
    lambda x: x.sub_(True),
    lambda x: (x > 0) - x,
    lambda x: ~x,
    lambda x: x & 1.5,
    lambda x: x.long() << 1.5,
    lambda x: torch.gcd(x, x),
    lambda x: x.long() ** -1,
    lambda x: (x > 0).abs(),
    lambda x: F.gelu(x.long()),
    lambda x: torch.maximum(x, x * 1j),
    lambda x: x < 1j,
]


@pytest.mark.parametrize("size", [(2, 3), (0, 3), (), (1,)])
@pytest.mark.parametrize("operator", REFUSED_BY_ELEMENTS)
def test_what_an_elementwise_kernel_refuses_raises_at_its_line_behind_what_was_written(operator, size):
    def program(x, y):
        y.add_(1)
        return operator(x)

    found = check(program, torch.ones(size), torch.ones(2))
    assert not found.raised  # by a graph


def test_numbers_that_a_kernel_takes_and_others_that_it_refuses_are_told_apart():
    for power in (2, -1, 3, -2, 2.0):
        check(lambda x, power: (x.add_(1), x**power), torch.ones(2, dtype=torch.int64), power)


aten = torch.ops.aten
WHOLE, BROKEN = torch.ones(3, dtype=torch.int64), torch.ones(3)
DIVISIONS = {
    "whole numbers": (aten.floor_divide.default, (WHOLE, WHOLE), True),
    "the remainder": (aten.remainder.Tensor, (WHOLE, WHOLE), True),
    "the remainder of a number": (aten.remainder.Scalar_Tensor, (7, WHOLE), True),
    "in place": (aten.fmod_.Tensor, (WHOLE, WHOLE), True),
    "by a number": (aten.remainder.Scalar, (WHOLE, 2), False),
    "of no whole numbers": (aten.floor_divide.default, (BROKEN, BROKEN), False),
    "true division": (aten.div.Tensor, (WHOLE, WHOLE), False),
    "a sum": (aten.add.Tensor, (WHOLE, WHOLE), False),
}


@pytest.mark.parametrize("name", DIVISIONS)
def test_an_elementwise_operator_may_fail_where_its_kernel_does_on_zeros(name):
    func, args, fails = DIVISIONS[name]
    assert check_dtypes(func, args, {}) == fails


def test_a_size_that_divides_may_be_zero_in_another_call():
    world = FakeWorld()
    size = world.fakify(torch.ones(3), LocalSource("x")).shape[0]
    assert check_dtypes(aten.remainder.Scalar, (WHOLE, size), {})


def test_what_divides_whole_numbers_is_noted():
    for program, fails in ((lambda x: x % x, True), (lambda x: x + x, False)):
        world = FakeWorld()
        world.run(program, [world.fakify(WHOLE, LocalSource("x"))])
        assert world.fake_mode.met_failing == fails


def test_a_probe_leaves_random_numbers_where_they_are():
    state = torch.get_rng_state()
    run_on_zeros(torch.ops.aten.poisson.default, (torch.ones(3),), {})
    assert torch.equal(torch.get_rng_state(), state)


def test_a_symbol_that_is_known_to_be_zero_is_zero_in_stand_ins_too():
    def fn(edges):
        return edges if edges.shape[1] else edges[:, torch.ones(0, dtype=torch.bool)]

    made = tracer.optimize("eager")(fn)
    assert tracer.precompile(made, "edges: _, E; E in 0..9", torch.ones(2, 3, dtype=torch.int64)).certified
    empty = torch.ones(2, 0, dtype=torch.int64)
    assert made(empty).shape == (2, 0)
