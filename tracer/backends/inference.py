"""Inference mode for compilers that lose it: in their graph gradients are off instead, and results are laid over what comes out.

AOTAutograd cannot make a view of a plain tensor in a graph that enters inference mode, and what it makes there are plain tensors.
"""

from __future__ import annotations

import torch
from torch import fx
from torch.autograd import grad_mode


def is_about_inference(error: Exception) -> bool:
    """Whether a compiler failed because it tracks the versions of a tensor of inference mode, which has none."""
    return isinstance(error, RuntimeError) and "Cannot set version_counter for inference tensor" in str(error)


def switches_inference(graph: fx.Graph) -> bool:
    return any(node.target is grad_mode._enter_inference_mode for node in graph.nodes)


def switch_gradients_instead(graph: fx.Graph) -> None:
    """Rewrites a graph that is called outside of inference mode: it computes the same there."""
    if torch.is_inference_mode_enabled():
        return
    enabled, inference, before = torch.is_grad_enabled(), False, {}
    for node in list(graph.nodes):
        if node.target is torch._C._set_grad_enabled:
            (enabled,) = node.args
            node.args = (enabled and not inference,)  # nothing has a history in inference mode
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


def laid_over(tensor: torch.Tensor, inference: bool) -> torch.Tensor:
    """A tensor in the same memory, made in inference mode or out of it."""
    with torch.inference_mode(inference):
        made = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        made.set_(tensor.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())
    if tensor.is_conj():
        torch._C._set_conj(made, True)
    if tensor.is_neg():
        torch._C._set_neg(made, True)
    return made
