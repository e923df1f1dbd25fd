"""Nodes of FX graphs, made without what `Graph.create_node` checks of each."""

from __future__ import annotations

from typing import Any

from torch import fx

_PARTS = ("_graph_namespace", "_insert", "_find_nodes_lookup_table", "_len")


def _has_parts() -> bool:
    graph: Any = fx.Graph()
    names = getattr(graph, "_graph_namespace", None)
    return all(hasattr(graph, part) for part in _PARTS) and hasattr(names, "create_name")


_IS_KNOWN = _has_parts()  # whether graphs are made of the parts that torch 2.13 has


def another_node(graph: fx.Graph, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
    """A node at the graph's insertion point that does what `node`, of the same graph, does with other arguments."""
    inside: Any = graph
    if not _IS_KNOWN:
        return graph.create_node(node.op, node.target, args, kwargs, name=node.name)
    name = inside._graph_namespace.create_name(node.name, None)
    made = fx.Node(graph, name, node.op, node.target, args, kwargs)
    inside._graph_namespace.associate_name_with_obj(name, made)
    inside._insert(made)
    inside._find_nodes_lookup_table.insert(made)
    inside._len += 1
    return made
