"""What `backward()` does with the gradient of a leaf, as operations of the graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

_OPTIONS = ("retain_graph", "create_graph", "only_inputs", "allow_unused", "is_grads_batched", "materialize_grads")


def first_gradient(leaf: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """What is stored where there was no gradient: memory of its own, laid out as the leaf's."""
    return torch.empty_like(leaf.detach()).copy_(gradient.detach())


def first_gradient_with_history(leaf: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """As `first_gradient`, where it may be differentiated itself."""
    with torch.enable_grad():
        return torch.empty_like(leaf.detach()).copy_(gradient)


def sum_of_gradients(before: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """What is stored in the place of a gradient that was there before, where it may be differentiated itself."""
    with torch.enable_grad():
        return before + gradient


def add_to_gradient(before: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """Adds to a gradient that was there before; one that has a history keeps it."""
    with torch.no_grad():
        return before.add_(gradient)


def kept_gradient(before: torch.Tensor | None, gradient: torch.Tensor, differentiable: bool) -> torch.Tensor:
    """What a tensor that retains its gradient has then: memory of its own, each time."""
    with torch.set_grad_enabled(differentiable):
        return gradient.clone(memory_format=torch.contiguous_format) if before is None else before + gradient


def keeps_layout(leaf: torch.Tensor) -> bool:
    """Whether `empty_like` lays out a gradient as autograd would."""
    if leaf.is_contiguous() or leaf.dim() < 2:
        return bool(leaf.is_contiguous())
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if leaf.dim() in formats and leaf.is_contiguous(memory_format=formats[leaf.dim()]):
        return True
    return bool(leaf.dim() == 2 and leaf.t().is_contiguous())


def keep_for_gradients(graph: fx.Graph) -> None:
    """For compilers that differentiate a graph as a whole: where results that require gradients have been through a backward pass
    inside of the graph, what they need for another one must not be gone."""
    for node in graph.nodes:
        if node.target is torch.autograd.grad:
            node.target = grad
            node.args, node.kwargs = node.args[:3], {**dict(zip(_OPTIONS, node.args[3:])), **node.kwargs}


def grad(*args: Any, **options: Any) -> Any:
    """torch.autograd.grad. What it frees as it runs is free for the program; a compiler's trace of it, under a mode of torch's,
    goes on to differentiate."""
    if torch._C._len_torch_dispatch_stack():
        options["retain_graph"] = True
    return torch.autograd.grad(*args, **options)
