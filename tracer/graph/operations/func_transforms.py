"""Functions under a transform of `torch.func`, in the graph: the function is a graph of its own, the transform is torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import func, fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

Function = Callable[..., Any]


def _made(transform: Callable[..., Function]) -> Callable[..., Any]:
    """For transforms that make a function of a function."""

    def apply(function: Function, options: dict[str, Any], args: Any, kwargs: dict[str, Any]) -> Any:
        return transform(function, **options)(*args, **kwargs)

    return apply


def _applied(transform: Callable[..., Any]) -> Callable[..., Any]:
    """For transforms that call the function at once."""

    def apply(function: Function, options: dict[str, Any], args: Any, kwargs: dict[str, Any]) -> Any:
        return transform(function, *args, **options)

    return apply


APPLY: dict[str, Callable[..., Any]] = {
    "vmap": _made(torch.vmap),
    "grad": _made(func.grad),
    "grad_and_value": _made(func.grad_and_value),
    "jacrev": _made(func.jacrev),
    "jacfwd": _made(func.jacfwd),
    "hessian": _made(func.hessian),
    "jvp": _applied(func.jvp),
    "vjp": _applied(func.vjp),
}


class Transformed(torch.nn.Module):
    """A graph under a transform, or one for each time that the transform calls the function. Calls take and give the leaves of
    what the program's call takes and gives; a graph takes the tensors among the leaves that the transform calls it with, then its
    part of `captured`."""

    def __init__(self, transform: str, options: dict[str, Any], takes: pytree.TreeSpec) -> None:
        super().__init__()
        self.transform = transform
        self.options = options
        self.takes = takes
        self.gives: list[pytree.TreeSpec] = []  # of the graphs
        self.graphs = torch.nn.ModuleList()

    def set_graphs(self, graphs: list[tuple[fx.GraphModule, pytree.TreeSpec]]) -> None:
        self.graphs.extend([graph for graph, _ in graphs])
        self.gives = [gives for _, gives in graphs]

    def apply(self, function: Function, leaves: list[Any]) -> Any:
        args, kwargs = pytree.tree_unflatten(leaves, self.takes)
        return APPLY[self.transform](function, self.options, args, kwargs)

    def forward(self, captured: tuple[tuple[Any, ...], ...], *leaves: Any) -> list[Any]:
        calls = zip(self.graphs, captured, self.gives, strict=True)

        def function(*args: Any, **kwargs: Any) -> Any:
            graph, read, gives = next(calls)
            tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            return pytree.tree_unflatten(graph(*tensors, *read), gives)

        found: list[Any] = pytree.tree_leaves(self.apply(function, list(leaves)))
        return found


class Cotangents(torch.nn.Module):
    """How the function that `vjp` gives is called: with what stands for the leaves of its argument."""

    def __init__(self, takes: pytree.TreeSpec) -> None:
        super().__init__()
        self.takes = takes

    def forward(self, function: Function, *leaves: Any) -> list[Any]:
        args, kwargs = pytree.tree_unflatten(list(leaves), self.takes)
        found: list[Any] = pytree.tree_leaves(function(*args, **kwargs))
        return found


def call_transformed(transformed: Transformed, captured: tuple[tuple[Any, ...], ...], *leaves: Any) -> list[Any]:
    found: list[Any] = transformed(captured, *leaves)
    return found


def call_vjp(how: Cotangents, function: Function, *leaves: Any) -> list[Any]:
    found: list[Any] = how(function, *leaves)
    return found


# Around what the program's function does where torch, which computes on fakes, calls it: each operation enters the fake mode.
outside_of_modes = _disable_current_modes
