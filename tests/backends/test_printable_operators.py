"""Operators whose names are words of Python, in graphs of operators."""

from __future__ import annotations

import keyword

import pytest
import torch

import tracer
from tracer.backends.printable_operators import PRINTABLE

FULL = pytest.param("inductor", marks=pytest.mark.full)


def drawn(fn, *args):
    torch.manual_seed(0)
    return fn(*args)


def test_every_operator_that_cannot_be_printed_is_replaced():
    schemas = torch._C._jit_get_all_schemas()
    odd = {(s.name, s.overload_name) for s in schemas if keyword.iskeyword(s.overload_name)}
    assert odd == {(op._schema.name, op._schema.overload_name) for op in PRINTABLE} != set()
    assert not [s.name for s in schemas if any(map(keyword.iskeyword, s.name.split("::")))]


@pytest.mark.parametrize("backend", ["aot_eager", FULL])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.uint8])
def test_numbers_between_bounds_are_those_of_the_program(backend, dtype):
    def program(x):
        first = (x + 1).random_(3, 90)
        second = (x + 1).random_(**{"from": 3, "to": 90})
        return first, second, torch.empty_like(x).random_(-0, 7)

    x = torch.zeros(20, dtype=dtype)
    found = drawn(tracer.compile(program, backend=backend, fullgraph=True), x)
    for ours, theirs in zip(found, drawn(program, x)):
        assert torch.equal(ours, theirs)
    assert not torch.equal(found[0], found[1])  # drawn anew, not taken for the same


@pytest.mark.parametrize("backend", ["aot_eager", FULL])
def test_an_input_is_filled_in_place_with_numbers_from_a_bound_on(backend):
    def program(x):
        x.random_(2**62, None)
        return x + 1

    expected, found = torch.zeros(5, dtype=torch.int64), torch.zeros(5, dtype=torch.int64)
    results = drawn(program, expected), drawn(tracer.compile(program, backend=backend, fullgraph=True), found)
    assert torch.equal(*results) and torch.equal(expected, found) and found.min() >= 2**62


@pytest.mark.parametrize("pre_dispatch", [False, True])
def test_a_graph_of_operators_is_exported(pre_dispatch):
    def program(x):
        return (x + 1).random_(3, 90) * 2

    x = torch.zeros(20)
    module, _ = tracer.export(program, aten_graph=True, pre_dispatch=pre_dispatch)(x)
    assert torch.equal(drawn(module, x), drawn(program, x))


def test_a_graph_with_gradients_draws_once():
    def program(x):
        return (x * torch.empty_like(x).random_(1, 5)).sum()

    x, y = torch.ones(6, requires_grad=True), torch.ones(6, requires_grad=True)
    drawn(program, x).backward()
    drawn(tracer.compile(program, backend="aot_eager", fullgraph=True), y).backward()
    assert torch.equal(x.grad, y.grad)
