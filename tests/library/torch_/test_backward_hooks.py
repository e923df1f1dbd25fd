"""Modules with backward hooks: their call is left to CPython as a whole, and gradients and what hooks see are eager's."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.support import breaks, captured
from tests.support.graphs import Graphs
from tracer import optimize

SEEN: list[float] = []


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
        self.last = nn.Linear(3, 3)

    def forward(self, x):
        return self.last(self.first(x.sin()).relu() + 1)


def _doubled(module, into, out):
    SEEN.append(out[0].sum().item())
    return (into[0] * 2,)


HOOKS = {
    "full": lambda m: m.first.register_full_backward_hook(_doubled),
    "before": lambda m: m.first.register_full_backward_pre_hook(lambda module, out: (out[0] * 3,)),
    "both": lambda m: (HOOKS["full"](m), HOOKS["before"](m)),
    "of the compiled module": lambda m: m.register_full_backward_hook(_doubled),
}


def _layers(hooked):
    torch.manual_seed(0)
    layers = Layers()
    HOOKS[hooked](layers)
    return layers


@pytest.mark.parametrize("hooked", HOOKS)
def test_gradients_and_what_hooks_see_are_those_of_eager(hooked):
    seen = []
    for compile_it in (lambda m: m, optimize("eager")):
        SEEN.clear()
        layers = _layers(hooked)
        run = compile_it(layers)
        x = torch.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
        for _ in range(3):
            run(x).sum().backward()
        seen.append(([x.grad, *(p.grad for p in layers.parameters())], list(SEEN)))
    assert all(map(torch.equal, seen[0][0], seen[1][0]))
    assert seen[0][1] == seen[1][1]


@pytest.mark.parametrize("hooked", HOOKS)
def test_the_call_of_a_hooked_module_is_the_only_break(hooked):
    layers = _layers(hooked)
    x = torch.ones(2, 3)
    checked = breaks(lambda x: layers(x) * 2, x)
    assert checked.break_ids == ["unsupported-module"]
    assert sum(operation == "linear" for operation in checked.operations) == 3


@pytest.mark.parametrize("hooked", HOOKS)
def test_where_no_gradient_flows_a_hooked_module_is_captured(hooked):
    layers = _layers(hooked)
    captured(torch.no_grad()(lambda x: layers(x) * 2), torch.ones(2, 3))
    captured(lambda x: layers.requires_grad_(False)(x) * 2, torch.ones(2, 3))


def test_hooks_that_are_removed_are_not_waited_for():
    layers, graphs = Layers(), Graphs()
    handle = layers.first.register_full_backward_hook(_doubled)
    run = optimize(graphs.backend)(layers)
    x = torch.ones(2, 3)
    run(x)
    graphs.clear()
    handle.remove()
    assert torch.equal(run(x), layers(x))
    assert [sum(node.op == "call_function" for node in gm.graph.nodes) > 3 for gm in graphs] == [True]
