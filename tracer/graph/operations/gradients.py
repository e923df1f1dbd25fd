"""What `backward()` does with the gradient of a leaf, as operations of the graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

_OPTIONS = ("retain_graph", "create_graph", "only_inputs", "allow_unused", "is_grads_batched", "materialize_grads")


def first_gradient(leaf: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """The first gradient of a leaf, as autograd stores it: a copy, laid out as the leaf is."""
    return torch.empty_like(leaf.detach()).copy_(gradient.detach())


def first_gradient_with_history(leaf: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """As `first_gradient`, of a gradient that may be differentiated itself (`create_graph=True`)."""
    with torch.enable_grad():
        return torch.empty_like(leaf.detach()).copy_(gradient)


def sum_of_gradients(before: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """The sum of a leaf's gradient and a new one, where the sum may be differentiated itself. It replaces the leaf's."""
    with torch.enable_grad():
        return before + gradient


def add_to_gradient(before: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    """Adds a new gradient to that of a leaf, in place. A history that the leaf's gradient has is kept, and not extended."""
    with torch.no_grad():
        return before.add_(gradient)


def kept_gradient(before: torch.Tensor | None, gradient: torch.Tensor, differentiable: bool) -> torch.Tensor:
    """The gradient of a tensor that retains it (`retain_grad`), after a further one has come: always a new tensor."""
    with torch.set_grad_enabled(differentiable):
        return gradient.clone(memory_format=torch.contiguous_format) if before is None else before + gradient


def keeps_layout(leaf: torch.Tensor) -> bool:
    """Whether `empty_like(leaf)` has the strides that autograd gives to the leaf's first gradient."""
    if leaf.is_contiguous() or leaf.dim() < 2:
        return bool(leaf.is_contiguous())
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if leaf.dim() in formats and leaf.is_contiguous(memory_format=formats[leaf.dim()]):
        return True
    return bool(leaf.dim() == 2 and leaf.t().is_contiguous())


def keep_for_gradients(graph: fx.Graph) -> None:
    """Changes a graph for compilers that differentiate it as a whole. A backward pass inside of the graph frees what it walked
    over, and the compiler's own pass over the results may need that again: `grad` below keeps it."""
    for node in graph.nodes:
        if node.target is torch.autograd.grad:
            node.target = grad
            node.args, node.kwargs = node.args[:3], {**dict(zip(_OPTIONS, node.args[3:])), **node.kwargs}


def grad(*args: Any, **options: Any) -> Any:
    """torch.autograd.grad, with `retain_graph` while a compiler traces it (under a torch-dispatch mode): the compiler goes on to
    differentiate. When the graph runs, it frees what the program's call frees."""
    if torch._C._len_torch_dispatch_stack():
        options["retain_graph"] = True
    return torch.autograd.grad(*args, **options)
