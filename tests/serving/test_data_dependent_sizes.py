"""Masks, `nonzero` and `unique` in programs whose shapes are declared: captured, certified, and equal to eager for all data."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn

import tracer


class Sage(nn.Module):
    """One step of message passing over the edges that a mask keeps."""

    def __init__(self):
        super().__init__()
        self.own, self.neighbours = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x, edges, mask):
        source, target = edges[:, mask]
        total = torch.zeros_like(x).index_add_(0, target, x[source])
        count = torch.zeros(x.shape[0]).index_add_(0, target, torch.ones_like(target, dtype=x.dtype)).clamp(min=1)
        return self.own(x) + self.neighbours(total / count[:, None])


class Attention(nn.Module):
    """Attention along edges, without those from a node to itself, which are added for each node."""

    def __init__(self):
        super().__init__()
        self.value, self.left, self.right = nn.Linear(8, 8), nn.Linear(8, 1), nn.Linear(8, 1)

    def forward(self, x, edges):
        edges = edges[:, (edges[0] != edges[1]).nonzero().squeeze(1)]
        nodes = torch.arange(x.shape[0])
        source, target = torch.cat([edges[0], nodes]), torch.cat([edges[1], nodes])
        values = self.value(x)
        score = nn.functional.leaky_relu(self.left(values)[source] + self.right(values)[target], 0.2).squeeze(1)
        largest = torch.full((x.shape[0],), float("-inf")).scatter_reduce(0, target, score, "amax")
        weight = (score - largest[target]).exp()
        weight = weight / torch.zeros(x.shape[0]).index_add_(0, target, weight)[target]
        return torch.zeros_like(values).index_add_(0, target, values[source] * weight[:, None])


class Pooled(nn.Module):
    """The sum of the nodes of each graph of a batch, however many these are."""

    def forward(self, x, graph):
        found, place = torch.unique(graph, return_inverse=True)
        return found, torch.zeros(found.shape[0], x.shape[1]).index_add_(0, place, x)


def edges(nodes, count):
    return torch.randint(0, nodes, (2, count))


CASES = {
    "sage": (Sage, "x: N, _; edges: _, E; mask: E", lambda n, e: (torch.randn(n, 8), edges(n, e), torch.rand(e) > 0.5)),
    "sage without edges": (
        Sage,
        "x: N, _; edges: _, E; mask: E",
        lambda n, e: (torch.randn(n, 8), edges(n, e), torch.rand(e) > 1),
    ),
    "attention": (Attention, "x: N, _; edges: _, E", lambda n, e: (torch.randn(n, 8), edges(n, e))),
    "pooled": (Pooled, "x: N, _; graph: N", lambda n, e: (torch.randn(n, 8), torch.randint(0, 3, (n,)))),
}


@pytest.mark.parametrize("name", CASES)
def test_a_graph_network_is_certified(name):
    kind, dims, arguments = CASES[name]
    torch.manual_seed(0)
    draw = random.Random(0)
    model = kind().eval()
    compiled = tracer.compile(model)
    sizes = "; N in 1..100" + "; E in 0..400" * ("E" in dims)
    with torch.no_grad():
        found = tracer.precompile(compiled, dims + sizes, arguments(5, 9))
        assert found.certified, str(found)
        compiled.seal()
        for number in range(60):
            nodes = (1, 2, 100)[number] if number < 3 else draw.randint(1, 100)
            call = arguments(nodes, draw.choice((0, 1, 2, 400, draw.randint(0, 400))))
            expected, seen = model(*call), compiled(*call)
            for a, b in zip(expected, seen, strict=True) if isinstance(expected, tuple) else [(expected, seen)]:
                assert torch.equal(a, b) and a.stride() == b.stride()


def test_a_branch_on_such_a_size_breaks_and_both_ways_are_certified():
    def f(x):
        kept = x[x > 0]
        return kept.sum() if kept.shape[0] > 3 else kept

    compiled = tracer.optimize("eager")(f)
    found = tracer.precompile(compiled, "x: N; N in 2..9", torch.ones(4))
    assert found.certified and len(found.behind) == 2, found
    compiled.seal()
    for x in (torch.randn(size) for size in range(2, 10) for _ in range(4)):
        assert torch.equal(compiled(x), f(x))


def test_without_declared_shapes_a_mask_breaks_the_graph_as_ever():
    compiled = tracer.optimize("eager")(lambda x: x[x > 0] * 2)
    compiled(torch.ones(3))
    assert compiled.stats()["breaks"] == 1


def test_an_item_is_captured_where_shapes_are_declared():
    compiled = tracer.optimize("eager")(lambda x: x * x.sum().item())
    assert tracer.precompile(compiled, "x: N; N in 1..9", torch.ones(4)).certified
    for size, value in ((1, 2.0), (9, -1.0), (3, float("inf")), (4, 0.0)):
        x = torch.full((size,), value)
        assert torch.equal(compiled(x), x * x.sum().item())
