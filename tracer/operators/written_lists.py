"""Operators that write to several lists of tensors, as the fused optimizers do.

torch's functionalization takes an empty list for one of plain tensors, and refuses to write to it beside the others; some of
these operators have no rule for fake tensors either. The operator that gives new tensors has no such trouble; what it gives is
written where it belongs.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx


def write_results_of_functional_operators(graph: fx.Graph) -> None:
    """Rewrites the operators of a graph that write to several lists, and give nothing else."""
    for node in graph.nodes:
        in_place, functional = _operators(node)
        lists = _written_lists(node, in_place) if functional is not None else []
        if len(lists) > 1:
            with graph.inserting_before(node):
                _write_results(graph, graph.call_function(functional, node.args, node.kwargs), lists)
            graph.erase_node(node)


def _operators(node: fx.Node) -> tuple[Any, Any]:
    """ATen's `_fused_adam_` and `_fused_adam` of a call of torch's `_fused_adam_`; None for what there is not."""
    name = getattr(node.target, "__name__", "")
    if node.op != "call_function" or not name.endswith("_") or getattr(torch, name, None) is not node.target:
        return None, None
    in_place = getattr(torch.ops.aten, name, None)
    return in_place, None if in_place is None else getattr(torch.ops.aten, name[:-1], None)


def _written_lists(node: fx.Node, in_place: Any) -> list[Any]:
    schema = getattr(in_place, in_place.overloads()[0])._schema  # all of them write to the same
    if schema.returns:
        return []
    written = [(i, arg.name) for i, arg in enumerate(schema.arguments) if arg.is_write and isinstance(arg.type, torch.ListType)]
    return [node.args[i] if i < len(node.args) else node.kwargs[name] for i, name in written]


def _write_results(graph: fx.Graph, results: fx.Node, lists: list[Any]) -> None:
    for i, tensors in enumerate(lists):
        news = graph.call_function(operator.getitem, (results, i))
        for j, tensor in enumerate(tensors):
            graph.call_method("copy_", (tensor, graph.call_function(operator.getitem, (news, j))))
