"""Graphs that begin while gradients are off and switch them on: what follows `torch.no_grad()` after a graph break in its block.

AOTAutograd copies into inputs, and makes views of inputs, when the graph has run, in the grad mode of the call. In that of such a
graph, writes would not be recorded and views would be leaves. So it is compiled and called with gradients on, and begins with
switching them off itself.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import fx

from tracer.backends.result_memory import Compiled
from tracer.graph.own_leaves import with_grad_mode


def begin_with_gradients_on(graph: fx.Graph) -> bool:
    """Lets a graph that begins while gradients are off, and switches them on later, begin and end with gradients on. Returns
    whether it was changed: then it has to be compiled and called with gradients on."""
    if torch.is_grad_enabled() or torch.is_inference_mode_enabled() or not any(enabled for _, enabled in with_grad_mode(graph)):
        return False
    with graph.inserting_before(next(node for node in graph.nodes if node.op != "placeholder")):
        graph.call_function(torch._C._set_grad_enabled, (False,))
    with graph.inserting_before(graph.output_node()):  # what is made behind the graph is made in the mode that it leaves
        graph.call_function(torch._C._set_grad_enabled, (True,))
    return True


def called_with_gradients_on(compiled: Compiled) -> Compiled:
    return functools.partial(_with_gradients_on, compiled)


def _with_gradients_on(compiled: Compiled, *args: Any) -> Any:
    with torch.enable_grad():
        return compiled(*args)
