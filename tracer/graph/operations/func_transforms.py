"""Functions under a transform of `torch.func`, in the graph: the function is a graph of its own, the transform is torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import func, fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

Function = Callable[..., Any]


def _call_what_it_returns(transform: Callable[..., Function]) -> Callable[..., Any]:
    """How a transform that makes a function of a function is applied to arguments."""

    def apply(function: Function, options: dict[str, Any], args: Any, kwargs: dict[str, Any]) -> Any:
        return transform(function, **options)(*args, **kwargs)

    return apply


def _call_with_arguments(transform: Callable[..., Any]) -> Callable[..., Any]:
    """How a transform that calls the function at once is applied to arguments."""

    def apply(function: Function, options: dict[str, Any], args: Any, kwargs: dict[str, Any]) -> Any:
        return transform(function, *args, **options)

    return apply


APPLY: dict[str, Callable[..., Any]] = {
    "vmap": _call_what_it_returns(torch.vmap),
    "grad": _call_what_it_returns(func.grad),
    "grad_and_value": _call_what_it_returns(func.grad_and_value),
    "jacrev": _call_what_it_returns(func.jacrev),
    "jacfwd": _call_what_it_returns(func.jacfwd),
    "hessian": _call_what_it_returns(func.hessian),
    "jvp": _call_with_arguments(func.jvp),
    "vjp": _call_with_arguments(func.vjp),
}


class Transformed(torch.nn.Module):
    """A transform of the program's function, which is a graph, or several: one for each time that the transform calls it.

    The module is called with the leaves of the program's arguments (their structure is `input_spec`) and returns the leaves of
    the result. Each graph takes the tensors among the leaves that the transform passes, then its tuple of `captured`: values of
    the surrounding graph that it reads."""

    def __init__(self, transform: str, options: dict[str, Any], input_spec: pytree.TreeSpec) -> None:
        super().__init__()
        self.transform = transform
        self.options = options
        self.input_spec = input_spec
        self.output_specs: list[pytree.TreeSpec] = []  # the structures of the graphs' results
        self.graphs = torch.nn.ModuleList()

    def set_graphs(self, graphs: list[tuple[fx.GraphModule, pytree.TreeSpec]]) -> None:
        self.graphs.extend([graph for graph, _ in graphs])
        self.output_specs = [output_spec for _, output_spec in graphs]

    def apply(self, function: Function, leaves: list[Any]) -> Any:
        args, kwargs = pytree.tree_unflatten(leaves, self.input_spec)
        return APPLY[self.transform](function, self.options, args, kwargs)

    def forward(self, captured: tuple[tuple[Any, ...], ...], *leaves: Any) -> list[Any]:
        calls = zip(self.graphs, captured, self.output_specs, strict=True)

        def function(*args: Any, **kwargs: Any) -> Any:
            graph, read, output_spec = next(calls)
            tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            return pytree.tree_unflatten(graph(*tensors, *read), output_spec)

        found: list[Any] = pytree.tree_leaves(self.apply(function, list(leaves)))
        return found


class Cotangents(torch.nn.Module):
    """Calls the function that `vjp` gives, with the leaves of its arguments; their structure is `input_spec`."""

    def __init__(self, input_spec: pytree.TreeSpec) -> None:
        super().__init__()
        self.input_spec = input_spec

    def forward(self, function: Function, *leaves: Any) -> list[Any]:
        args, kwargs = pytree.tree_unflatten(list(leaves), self.input_spec)
        found: list[Any] = pytree.tree_leaves(function(*args, **kwargs))
        return found


def call_transformed(transformed: Transformed, captured: tuple[tuple[Any, ...], ...], *leaves: Any) -> list[Any]:
    """The operation of the graph for a call of a transformed function."""
    found: list[Any] = transformed(captured, *leaves)
    return found


def call_vjp(cotangents: Cotangents, function: Function, *leaves: Any) -> list[Any]:
    """The operation of the graph for a call of the function that `vjp` gave."""
    found: list[Any] = cotangents(function, *leaves)
    return found


# Entered around the tracing of the program's function where torch calls it from a transform on fakes. Torch's modes, the fake
# mode among them, are off in it, and each operation that is traced enters the fake mode itself.
outside_of_modes = _disable_current_modes
