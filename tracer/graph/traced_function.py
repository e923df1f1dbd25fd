"""An `autograd.Function` of the program, in the graph: its forward and its backward are graphs, found in one trace."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import fx


class Layout(NamedTuple):
    """What the two graphs take and give. Values are numbered: inputs, what forward reads besides, outputs, and what forward keeps
    for backward; the gradient of the n-th output is -1 - n."""

    name: str  # of the program's class
    outputs: int
    is_tuple: bool
    saved: tuple[int, ...]  # what the program gave to `save_for_backward`: it must not change until then
    read: tuple[int, ...]  # what the graph of backward takes
    not_differentiable: tuple[int, ...]  # places among the outputs


class TracedFunction(torch.autograd.Function):
    """Runs the graphs as PyTorch runs the program's own function."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, forward: fx.GraphModule, backward: fx.GraphModule, layout: Layout, captured: tuple[Any, ...], *inputs: Any
    ) -> tuple[Any, ...]:
        results = forward(*inputs, *captured)
        outputs = results[: layout.outputs]
        values = (*inputs, *captured, *results)
        ctx.save_for_backward(*(values[index] for index in layout.saved))
        ctx.others = {index: values[index] for index in layout.read if index >= 0 and index not in layout.saved}
        ctx.mark_non_differentiable(*(outputs[index] for index in layout.not_differentiable))
        ctx.run_backward, ctx.layout = backward, layout
        return outputs

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        layout: Layout = ctx.layout
        known = dict(zip(layout.saved, ctx.saved_tensors)) | ctx.others
        known |= {-1 - index: gradient.contiguous() for index, gradient in enumerate(gradients)}
        return (None, None, None, None, *ctx.run_backward(*(known[index] for index in layout.read)))


@functools.cache
def _named(name: str) -> type[TracedFunction]:
    """With a `grad_fn` that is called as that of the program's class: PyTorch's backward hooks look for theirs by its name."""
    return type(name, (TracedFunction,), {})


def applied(cls: type[torch.autograd.Function]) -> Callable[..., Any]:
    """The operation that stands in a graph for `cls.apply`, which is not traced through."""

    def apply(*args: Any) -> Any:
        return cls.apply(*args)

    apply.__name__ = cls.__name__
    return apply


def run_traced_function(
    forward: fx.GraphModule, backward: fx.GraphModule, layout: tuple[Any, ...], captured: tuple[Any, ...], inputs: tuple[Any, ...]
) -> Any:
    """What the program's `Function.apply` gives for its tensors `inputs`."""
    named = Layout(*layout)
    outputs = _named(named.name).apply(forward, backward, named, captured, *inputs)
    return outputs if named.is_tuple else outputs[0]
