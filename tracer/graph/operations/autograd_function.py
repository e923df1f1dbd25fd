"""An `autograd.Function` of the program, in the graph: its forward and its backward are graphs, found in one trace."""

from __future__ import annotations

import builtins
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx


class Backward(NamedTuple):
    """What happens where just these gradients come: a graph runs, on the values of these numbers, or the program raises."""

    gradients: tuple[bool, ...]  # of each output, whether there is one
    read: tuple[int, ...]
    error: tuple[str, str] | None  # the built-in class, and the text


class Layout(NamedTuple):
    """What the graphs take and give. Values are numbered: inputs, what forward reads besides, outputs, and what forward keeps
    for backward; the gradient of the n-th output is -1 - n. Outputs that are no values of the graph are None there."""

    name: str  # of the program's class
    outputs: int
    is_tuple: bool
    saved: tuple[int, ...]  # what the program gave to `save_for_backward`: it must not change until then
    not_differentiable: tuple[int, ...]  # places among the outputs
    dirty: tuple[int, ...]  # inputs that the program gave to `mark_dirty`
    materializes: bool  # whether zeros stand for gradients that do not come
    backwards: tuple[Any, ...]  # fields of `Backward`s

    def backward_of(self, gradients: Sequence[Any]) -> tuple[int, Backward]:
        """Which of the graphs runs, for these gradients."""
        found = tuple(gradient is not None for gradient in gradients)
        named = [Backward(*fields) for fields in self.backwards]
        return next((index, backward) for index, backward in enumerate(named) if backward.gradients == found)


class TracedFunction(torch.autograd.Function):
    """Runs the graphs as PyTorch runs the program's own function."""

    @staticmethod
    def forward(
        ctx: Any, forward: fx.GraphModule, backwards: tuple[Any, ...], layout: Layout, captured: tuple[Any, ...], *inputs: Any
    ) -> tuple[Any, ...]:
        results = forward(*inputs, *captured)
        outputs: tuple[Any, ...] = results[: layout.outputs]
        values = (*inputs, *captured, *results)
        ctx.save_for_backward(*(values[index] for index in layout.saved))
        read = {index for _, indices, _ in layout.backwards for index in indices}
        ctx.others = {index: values[index] for index in read if index >= 0 and index not in layout.saved}
        ctx.mark_non_differentiable(*(outputs[index] for index in layout.not_differentiable))
        if layout.dirty:
            ctx.mark_dirty(*(inputs[index] for index in layout.dirty))
        ctx.set_materialize_grads(layout.materializes)
        ctx.backwards, ctx.layout = backwards, layout
        return outputs

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[Any, ...]:
        layout: Layout = ctx.layout
        chosen, backward = layout.backward_of(gradients)
        if backward.error is not None:
            name, text = backward.error
            raise getattr(builtins, name)(text)
        known = dict(zip(layout.saved, ctx.saved_tensors)) | ctx.others
        known |= {-1 - index: gradient.contiguous() for index, gradient in enumerate(gradients) if gradient is not None}
        return (None, None, None, None, *ctx.backwards[chosen](*(known[index] for index in backward.read)))


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
        return [values[index] if index >= 0 else None for index in self.taken]

    @property
    def taken(self) -> tuple[int, ...]:
        """By number, what backward takes; there is one graph of it."""
        ((_, read, _),) = self.layout.backwards
        return tuple(read)


class TransformedTracedFunction(torch.autograd.Function):
    """The same under transforms of torch.func, which run forward at each of their levels: what backward needs leaves forward
    among its results, and every tensor is handed on by `save_for_backward`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(plan: Plan, *values: Any) -> tuple[Any, ...]:
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
        kept = zip(plan.taken, ctx.saved_tensors, ctx.numbers, strict=True)
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
    forward: fx.GraphModule,
    backwards: tuple[fx.GraphModule | None, ...],
    layout: tuple[Any, ...],
    captured: tuple[Any, ...],
    inputs: tuple[Any, ...],
) -> Any:
    """What the program's `Function.apply` gives for its tensors `inputs`."""
    named = Layout(*layout)
    if torch._C._are_functorch_transforms_active():
        (backward,) = backwards
        assert backward is not None
        plan = Plan(forward, backward, named, len(captured))
        outputs = _named(named.name, TransformedTracedFunction).apply(plan, *inputs, *captured)[: named.outputs]
    else:
        outputs = _named(named.name, TracedFunction).apply(forward, backwards, named, captured, *inputs)
    return outputs if named.is_tuple else outputs[0]


def run_traced_function_(*args: Any) -> Any:
    """The same of one that writes to its inputs: what writes is told by its name."""
    return run_traced_function(*args)
