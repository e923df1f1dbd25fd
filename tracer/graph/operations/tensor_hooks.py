"""Hooks on tensors as operations of the graph. What autograd calls with a gradient is a graph of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx


def add_hook(tensor: torch.Tensor, hook: fx.GraphModule, captured: tuple[Any, ...]) -> Any:
    """tensor.register_hook(...) of a graph that takes the gradient and `captured` and returns another gradient or None, in a
    tuple. The result is the handle."""
    return tensor.register_hook(lambda gradient: hook(gradient, *captured)[0])


def remove_hook(handle: Any) -> None:
    handle.remove()
