"""That a module has no hooks is one guard, as long as the trace has not met the tables that hold them."""

from __future__ import annotations

import collections

import pytest
import torch
from torch import nn

import tracer
from tracer.guards.containers import EmptyDicts

X = torch.linspace(-1, 1, 12).reshape(3, 4)


def doubled(module, args, output):
    return output * 2


class Writing(nn.Module):
    """Calls a module, stores a hook in a table, and calls the module again."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, table):
        y = self.linear(x)
        table[0] = doubled
        return self.linear(y)


def agree(model, compiled, table):
    results = []
    for call in (model.forward, compiled):
        with torch.no_grad():
            results.append(call(X, table))
        assert list(table) == [0]
        table.clear()
    assert torch.equal(*results)


def test_the_tables_of_a_module_are_one_guard():
    compiled = tracer.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    for gradients in (False, True):
        with torch.set_grad_enabled(gradients):
            compiled(X)
        guards = tracer.region_of(compiled).entries()[-1].guarded_code.manager.guards
        assert sum(type(guard) is EmptyDicts for guard in guards) == 2
        assert not any("['0']._forward_hooks" in source.name for guard in guards for source in guard.sources())


@pytest.mark.parametrize("own_first", [False, True])
def test_a_table_that_the_trace_fills_may_be_that_of_a_module(own_first):
    model = Writing()
    compiled = tracer.compile(model)
    tables = [collections.OrderedDict(), model.linear._forward_hooks]
    for table in (*(reversed(tables) if own_first else tables), *tables):
        agree(model, compiled, table)


class Sharing(nn.Module):
    """Layers that may have one table of hooks."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))

    def forward(self, x, table):
        for layer in self.layers:
            x = layer(x)
        table[0] = doubled
        return self.layers[1](x)


def test_modules_may_share_a_table():
    model = Sharing()
    compiled = tracer.compile(model)
    agree(model, compiled, collections.OrderedDict())
    model.layers[3]._forward_hooks = model.layers[1]._forward_hooks
    agree(model, compiled, collections.OrderedDict())
    agree(model, compiled, model.layers[3]._forward_hooks)
    model.layers[3]._forward_hooks = collections.OrderedDict()
    agree(model, compiled, model.layers[3]._forward_hooks)
    agree(model, compiled, model.layers[1]._forward_hooks)


def test_an_entry_that_stores_a_hook_is_made_once_more():
    class Registering(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            y = self.linear(x)
            self.linear._forward_hooks[len(self.linear._forward_hooks)] = doubled
            return y

    expected, model = Registering(), Registering()
    model.load_state_dict(expected.state_dict())
    compiled = tracer.compile(model)
    with torch.no_grad():
        for _ in range(3):
            assert torch.equal(expected(X), compiled(X))
