"""Nodes that are made without the checks of FX are what FX makes."""

from __future__ import annotations

import pytest
import torch
from torch import fx

from tracer.compat_torch import fx_nodes


def graph_of(make):
    """A graph in which `make` adds nodes like those that are there, before the last of them."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    first = graph.call_function(torch.sum, (x,), {"dim": 0})
    second = graph.call_method("view", (first, (2, -1)))
    with graph.inserting_before(second):
        made = [make(graph, first, (x,), {"dim": 1}), make(graph, first, (first,), {})]
        made.append(make(graph, second, (made[0], (4, made[1])), {}))
    graph.output((second, *made))
    return graph


def seen(graph):
    nodes = [
        (node.op, node.target, node.name, str(node.args), str(node.kwargs), list(map(str, node.users))) for node in graph.nodes
    ]
    found = [node.name for node in graph.find_nodes(op="call_function", target=torch.sum)]
    return nodes, sorted(found), len(graph.nodes), graph.python_code("self").src


@pytest.mark.parametrize("is_known", [True, False])
def test_another_node_is_like_one_of_create_node(monkeypatch, is_known):
    assert fx_nodes._IS_KNOWN
    monkeypatch.setattr(fx_nodes, "_IS_KNOWN", is_known)
    made = graph_of(fx_nodes.another_node)
    made.lint()
    assert seen(made) == seen(graph_of(lambda graph, node, *given: graph.create_node(node.op, node.target, *given)))
