"""An `autograd.Function` of the program as one operation of the graph. Its forward and its backward are graphs of their own,
which the trace of the call has recorded."""

from __future__ import annotations

import builtins
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import fx


class Backward(NamedTuple):
    """What backward does if exactly these outputs have gradients: a graph runs, or the program raises an error."""

    gradients: tuple[bool, ...]  # of each output, whether there is one
    read: tuple[int, ...]  # the numbers (see `Layout`) of the values that the graph takes
    error: tuple[str, str] | None  # the built-in class, and the text


class Layout(NamedTuple):
    """What the graphs take and return. Values are numbered in this order: inputs, other values that forward reads, outputs, and
    values that forward keeps for backward. The gradient of the n-th output (from 0) has the number -1 - n. An output that is no
    value of the graph is None."""

    name: str  # of the program's class
    outputs: int
    is_tuple: bool
    saved: tuple[int, ...]  # what the program gave to `save_for_backward`: autograd raises if it has changed by then
    not_differentiable: tuple[int, ...]  # places among the outputs
    dirty: tuple[int, ...]  # inputs that the program gave to `mark_dirty`
    materializes: bool  # whether zeros stand for gradients that do not come
    backwards: tuple[Any, ...]  # fields of `Backward`s
    jvp: tuple[int, ...] | None = None  # what the graph of jvp takes; the tangent of the n-th input has the number -1 - n

    def backward_of(self, gradients: Sequence[Any]) -> tuple[int, Backward]:
        """What backward does for these gradients, and its index."""
        found = tuple(gradient is not None for gradient in gradients)
        named = [Backward(*fields) for fields in self.backwards]
        return next((index, backward) for index, backward in enumerate(named) if backward.gradients == found)


class Graphs(NamedTuple):
    """Those of one class: of forward, of backward (one for each set of gradients), and of jvp where that is run."""

    forward: fx.GraphModule
    backwards: tuple[Any, ...]
    jvp: fx.GraphModule | None


_FIXED = 3  # arguments of `TracedFunction.forward` in front of the inputs
_NO_JVP = "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."


class TracedFunction(torch.autograd.Function):
    """Runs the graphs of `layout` as PyTorch runs the forward, the backward and the jvp of the program's own class."""

    @staticmethod
    def forward(ctx: Any, graphs: Graphs, layout: Layout, captured: tuple[Any, ...], *inputs: Any) -> tuple[Any, ...]:
        forward, backwards, jvp = graphs
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
        if layout.jvp is not None:  # it is run at once
            ctx.jvp, ctx.for_jvp = jvp, {index: values[index] for index in layout.jvp if index >= 0}
        return outputs

    @staticmethod
    def jvp(ctx: Any, *tangents: torch.Tensor | None) -> tuple[Any, ...]:
        layout: Layout = ctx.layout
        if layout.jvp is None:
            raise NotImplementedError(_NO_JVP)
        known, own = ctx.__dict__.pop("for_jvp"), tangents[_FIXED:]
        return tuple(ctx.jvp(*(known[index] if index >= 0 else own[-1 - index] for index in layout.jvp)))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[Any, ...]:
        layout: Layout = ctx.layout
        chosen, backward = layout.backward_of(gradients)
        if backward.error is not None:
            name, text = backward.error
            raise getattr(builtins, name)(text)
        known = dict(zip(layout.saved, ctx.saved_tensors)) | ctx.others
        known |= {-1 - index: gradient.contiguous() for index, gradient in enumerate(gradients) if gradient is not None}
        return (*(None,) * _FIXED, *ctx.backwards[chosen](*(known[index] for index in backward.read)))


@dataclasses.dataclass
class Plan:
    """All arguments of a `TransformedTracedFunction` but the tensors, as one object, which torch.func does not look into."""

    forward: fx.GraphModule
    backward: fx.GraphModule
    layout: Layout
    captured: int  # how many of the inputs are other values that forward reads: the last ones

    def values_for_backward(self, inputs: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        """What backward will take; None in the places of gradients."""
        values = (*inputs, *results)
        return [values[index] if index >= 0 else None for index in self.read_by_backward]

    @property
    def read_by_backward(self) -> tuple[int, ...]:
        """The numbers of the values that backward takes. There is exactly one graph of it here."""
        ((_, read, _),) = self.layout.backwards
        return tuple(read)


class TransformedTracedFunction(torch.autograd.Function):
    """As `TracedFunction`, under transforms of torch.func. They run forward at each of their levels, so whatever backward needs
    is a result of forward, and all tensors of it go through `save_for_backward`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(plan: Plan, *values: Any) -> tuple[Any, ...]:
        return tuple(plan.forward(*values))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        plan: Plan = inputs[0]
        read = plan.values_for_backward(inputs[1:], output)
        ctx.save_for_backward(*(value if isinstance(value, torch.Tensor) else None for value in read))
        ctx.numbers = [None if isinstance(value, torch.Tensor) else value for value in read]
        layout = plan.layout
        hidden = {*layout.not_differentiable, *range(layout.outputs, len(output))}
        ctx.mark_non_differentiable(*(output[index] for index in sorted(hidden)))
        ctx.plan = plan

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        plan: Plan = ctx.plan
        kept = zip(plan.read_by_backward, ctx.saved_tensors, ctx.numbers, strict=True)
        taken = [
            gradients[-1 - index].contiguous() if index < 0 else tensor if number is None else number
            for index, tensor, number in kept
        ]
        return (None, *plan.backward(*taken), *(None,) * plan.captured)


@functools.cache
def _subclass_named(name: str, base: type[torch.autograd.Function]) -> type[torch.autograd.Function]:
    """A subclass with the name of the program's class, and so of its `grad_fn`: PyTorch's backward hooks find theirs by that."""
    return type(name, (base,), {})


def untraced_apply(cls: type[torch.autograd.Function]) -> Callable[..., Any]:
    """The operation of a graph that calls `cls.apply`, for a class that is not traced through."""

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
    jvp: fx.GraphModule | None = None,
) -> Any:
    """The operation of the graph for a call of the program's `Function.apply`; `inputs` are its arguments that are values of the
    graph, `layout` the fields of a `Layout`."""
    named = Layout(*layout)
    if torch._C._are_functorch_transforms_active():
        (backward,) = backwards
        assert backward is not None
        plan = Plan(forward, backward, named, len(captured))
        outputs = _subclass_named(named.name, TransformedTracedFunction).apply(plan, *inputs, *captured)[: named.outputs]
    else:
        graphs = Graphs(forward, backwards, jvp)
        outputs = _subclass_named(named.name, TracedFunction).apply(graphs, named, captured, *inputs)
    return outputs if named.is_tuple else outputs[0]


def run_traced_function_(*args: Any, **kwargs: Any) -> Any:
    """The same for a function that writes to its inputs. By the underscore, `operators.facts` knows that the operation writes."""
    return run_traced_function(*args, **kwargs)
