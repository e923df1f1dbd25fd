"""An `autograd.Function` of the program, in the graph: its forward and its backward are graphs, found in one trace."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
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


@dataclasses.dataclass
class Plan:
    """What a `TransformedTracedFunction` is about, apart from tensors: one argument, which torch.func does not look into."""

    forward: fx.GraphModule
    backward: fx.GraphModule
    layout: Layout
    captured: int  # how many of the values are

    def read_of(self, inputs: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """What backward will take; the gradients among it are None."""
        values = (*inputs, *results)
        return [values[index] if index >= 0 else None for index in self.layout.read]


class TransformedTracedFunction(torch.autograd.Function):
    """The same under transforms of torch.func, which run forward at each of their levels: what backward needs leaves forward
    among its results, and every tensor is handed on by `save_for_backward`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(plan: Plan, *values: Any) -> tuple[Any, ...]:  # type: ignore[override]
        return tuple(plan.forward(*values))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        plan: Plan = inputs[0]
        read = plan.read_of(inputs[1:], output)
        ctx.save_for_backward(*(value if isinstance(value, torch.Tensor) else None for value in read))
        ctx.numbers = [None if isinstance(value, torch.Tensor) else value for value in read]
        layout = plan.layout
        hidden = {*layout.not_differentiable, *range(layout.outputs, len(output))}
        ctx.mark_non_differentiable(*(output[index] for index in sorted(hidden)))
        ctx.plan = plan

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        plan: Plan = ctx.plan
        kept = zip(plan.layout.read, ctx.saved_tensors, ctx.numbers, strict=True)
        taken = [
            gradients[-1 - index].contiguous() if index < 0 else tensor if number is None else number
            for index, tensor, number in kept
        ]
        return (None, *plan.backward(*taken), *(None,) * plan.captured)


@functools.cache
def _named(name: str, base: type[torch.autograd.Function]) -> type[torch.autograd.Function]:
    """With a `grad_fn` that is called as that of the program's class: PyTorch's backward hooks look for theirs by its name."""
    return type(name, (base,), {})


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
    if torch._C._are_functorch_transforms_active():
        plan = Plan(forward, backward, named, len(captured))
        outputs = _named(named.name, TransformedTracedFunction).apply(plan, *inputs, *captured)[: named.outputs]
    else:
        outputs = _named(named.name, TracedFunction).apply(forward, backward, named, captured, *inputs)
    return outputs if named.is_tuple else outputs[0]
