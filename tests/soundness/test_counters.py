"""Numbers that a program keeps and changes at each call: they become symbolic and do not trace again each time."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import tracer
from tests.support.graphs import Graphs

X = torch.ones(3)
CALLS = 10
TOTAL = 0


class Attribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0

    def forward(self, x):
        self.n += 1
        return x + self.n


class InContainers(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.items = {"k": 0}, [0]

    def forward(self, x):
        self.table["k"] += 3
        self.items[0] += 1
        return x + self.table["k"] * self.items[0]


class Decaying(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = 0.5

    def forward(self, x):
        self.rate *= 1.5
        return x * self.rate


class Every(nn.Module):
    """The counter decides a branch."""

    def __init__(self):
        super().__init__()
        self.n = 0

    def forward(self, x):
        self.n += 1
        return x * 2 if self.n % 4 == 0 else x + 1


class Cyclic(nn.Module):
    """The counter is an index, whose value the trace has to know."""

    def __init__(self):
        super().__init__()
        self.n = 0
        self.parts = [torch.full((3,), float(k)) for k in range(4)]

    def forward(self, x):
        self.n = (self.n + 1) % 4
        return x + self.parts[self.n]


def count_traces(plain, compiled_of):
    graphs = Graphs()
    compiled = tracer.optimize(graphs.backend)(compiled_of)
    for _ in range(CALLS):
        assert torch.equal(compiled(X), plain(X))
    return len(graphs)


@pytest.mark.parametrize(
    ("module", "most"), [(Attribute, 3), (InContainers, 3), (Decaying, 2), (Every, 4), (Cyclic, 4)], ids=lambda value: str(value)
)
def test_attributes_of_modules(module, most):
    plain = module()
    traced = copy.deepcopy(plain)
    assert count_traces(plain, traced) <= most
    assert {k: v for k, v in vars(plain).items() if k in ("n", "rate", "table", "items")} == {
        k: v for k, v in vars(traced).items() if k in ("n", "rate", "table", "items")
    }


def test_a_global():
    def fn(x):
        global TOTAL
        TOTAL += 1
        return x + TOTAL

    graphs = Graphs()
    compiled = tracer.optimize(graphs.backend)(fn)
    assert [compiled(X)[0].item() for _ in range(CALLS)] == [1.0 + n for n in range(1, CALLS + 1)]
    assert len(graphs) <= 3
    assert TOTAL == CALLS


def test_a_variable_of_a_closure():
    def make():
        n = 5

        def fn(x):
            nonlocal n
            n += 1
            return x + n

        return fn

    assert count_traces(make(), make()) <= 2


def test_what_does_not_change_is_a_constant_of_the_graph():
    module = Attribute()
    module.n = 7
    graphs = Graphs()
    compiled = tracer.optimize(graphs.backend, dynamic=True)(lambda x: x * module.n)
    compiled(X)
    assert [node.args[1] for node in graphs[0].graph.nodes if node.op == "call_function"] == [7]
