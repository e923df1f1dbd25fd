"""Operators that write to several lists of tensors, as the fused optimizers do.

torch's functionalization takes an empty list for one of plain tensors, and refuses to write to it beside the others; some of
these operators have no rule for fake tensors either. The operator that returns new tensors has neither problem, so the graph
calls that one and copies its results into the lists.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from tracer.operators.facts import argument, gives_something, writes, written_lists


def write_results_of_functional_operators(graph: fx.Graph, left_by: str) -> None:
    """Rewrites the operators that write to several lists and have no other result, but for those with `left_by` in `meta`."""
    for node in graph.nodes:
        functional = _functional(node.target) if node.op == "call_function" and left_by not in node.meta else None
        lists = [argument(place, node.args, node.kwargs) for place in written_lists(node.target)] if functional else []
        if len(lists) > 1:
            with graph.inserting_before(node):
                _write_results(graph, graph.call_function(functional, node.args, node.kwargs), lists)
            graph.erase_node(node)


def _functional(target: Any) -> Any:
    """The operator of ATen that returns what `target` writes: `_fused_adam` for torch's `_fused_adam_`; None if there is none."""
    if isinstance(target, torch._ops.OpOverload) and target.namespace == "aten" and not gives_something(target):
        return getattr(getattr(torch.ops.aten, target._opname.removesuffix("_"), None), target._overloadname, None)
    name = getattr(target, "__name__", "")
    if getattr(torch, name, None) is not target or not writes(target, {}) or gives_something(target):
        return None
    return getattr(torch.ops.aten, name.removesuffix("_"), None)


def _write_results(graph: fx.Graph, results: fx.Node, lists: list[Any]) -> None:
    for i, tensors in enumerate(lists):
        news = graph.call_function(operator.getitem, (results, i))
        for j, tensor in enumerate(tensors):
            graph.call_method("copy_", (tensor, graph.call_function(operator.getitem, (news, j))))
