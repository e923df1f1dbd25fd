"""Inference mode in graphs for compilers, which do not support it: gradients are switched off instead, and results are made
inference tensors afterwards.

AOTAutograd cannot make a view of a normal tensor in a graph that enters inference mode, and the tensors that it makes are
normal ones.
"""

from __future__ import annotations

import torch
from torch import fx
from torch.autograd import grad_mode


def enters_inference_mode(graph: fx.Graph) -> bool:
    return any(node.target is grad_mode._enter_inference_mode for node in graph.nodes)


def replace_inference_mode(graph: fx.Graph) -> None:
    """Rewrites a graph: it switches gradients off where it entered inference mode, and on where it left it."""
    enabled, inference, before = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), {}
    for node in list(graph.nodes):
        if node.target is torch._C._set_grad_enabled:
            (enabled,) = node.args
            node.args = (enabled and not inference,)  # in inference mode nothing is recorded for autograd
        elif node.target is grad_mode._enter_inference_mode:
            before[node] = enabled, inference
            inference, enabled = node.args[0], not node.args[0]
            _switch(graph, node, enabled)
        elif node.target is grad_mode._exit_inference_mode:
            enabled, inference = before[node.args[0]]
            _switch(graph, node, enabled and not inference)
            graph.erase_node(node)
    for node in before:
        graph.erase_node(node)


def _switch(graph: fx.Graph, at: fx.Node, enabled: bool) -> None:
    with graph.inserting_before(at):
        graph.call_function(torch._C._set_grad_enabled, (enabled,))


def alias_in_mode(tensor: torch.Tensor, inference: bool) -> torch.Tensor:
    """A tensor over the same memory that is an inference tensor, or is none."""
    with torch.inference_mode(inference):
        made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        made.set_(tensor.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())
    if tensor.is_conj():
        torch._C._set_conj(made, True)
    if tensor.is_neg():
        torch._C._set_neg(made, True)
    return made
