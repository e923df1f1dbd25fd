"""A call that fills a registry is compiled once, although the next call finds another registry."""

from __future__ import annotations

import pytest
import torch

import tracer
from tests.support.graphs import Graphs

REGISTRY: dict[type, Handler] = {}
SCALES: dict[str, float] = {}


class Handler:
    def scale(self, x):
        return x * 3


def handler_of(x):
    found = REGISTRY.get(type(x))
    if found is None:
        found = Handler()
        REGISTRY[type(x)] = found
    return found


def scaled(x):
    return handler_of(x).scale(x) + 1


@pytest.fixture
def graphs():
    REGISTRY.clear()
    SCALES.clear()
    return Graphs()


def entries(compiled):
    return tracer.region_of(compiled).entries()


def test_what_the_first_call_registers_costs_no_second_compile(graphs):
    compiled = tracer.optimize(graphs.backend, dynamic=True)(scaled)
    for n in (4, 6, 3):
        x = torch.randn(n, 2)
        assert torch.equal(compiled(x), x * 3 + 1)
    assert len(graphs) == 1
    assert list(REGISTRY) == [torch.Tensor] and type(REGISTRY[torch.Tensor]) is Handler


def test_a_call_of_other_sizes_is_compiled(graphs):
    compiled = tracer.optimize(graphs.backend, dynamic=False)(scaled)
    for n in (4, 6, 4):
        x = torch.randn(n)
        assert torch.equal(compiled(x), x * 3 + 1)
    assert len(graphs) == 2


def test_a_call_in_another_state_of_torch_is_compiled(graphs):
    compiled = tracer.optimize(graphs.backend)(scaled)
    x = torch.randn(4, requires_grad=True)
    with torch.no_grad():
        compiled(x)
    compiled(x).sum().backward()
    assert len(graphs) == 2
    assert x.grad.tolist() == [3.0] * 4


def test_another_graph_is_compiled(graphs):
    def counted(x):
        SCALES[f"call {len(SCALES)}"] = 1.0
        return x * len(SCALES)

    compiled = tracer.optimize(graphs.backend)(counted)
    assert [compiled(torch.ones(())).item() for _ in range(3)] == [1.0, 2.0, 3.0]
    assert len(graphs) == 3 and list(SCALES) == ["call 0", "call 1", "call 2"]


def test_inputs_that_must_differ_are_the_same_tensor(graphs):
    def both(x, y):
        handler_of(x)
        return x + y

    compiled = tracer.optimize(graphs.backend)(both)
    x = torch.ones(2)
    assert compiled(x, torch.ones(2)).tolist() == compiled(x, x).tolist() == [2.0, 2.0]
    assert len(graphs) == 2
