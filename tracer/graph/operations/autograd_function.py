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
    backward: fx.GraphModule | None  # None where no input requires a gradient
    jvp: fx.GraphModule | None  # None where no transform asks for tangents
    layout: Layout
    captured: int  # how many of the inputs are other values that forward reads: the last ones

    @property
    def read_by_backward(self) -> tuple[int, ...]:
        """The numbers of the values that backward takes. There is at most one graph of it here."""
        return tuple(index for _, read, _ in self.layout.backwards for index in read)

    @property
    def read_by_jvp(self) -> tuple[int, ...]:
        """The numbers of the values that jvp takes."""
        return self.layout.jvp or ()


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


class _Kept:
    """The values that a graph takes besides gradients or tangents: the tensors are kept by autograd, the others here."""

    def __init__(self, numbers: tuple[int, ...], values: Sequence[Any], save: Callable[..., None]) -> None:
        kept = [values[index] if index >= 0 else None for index in numbers]
        self._numbers = numbers
        self._others = [None if _is_tensor(value) else value for value in kept]
        save(*(value if _is_tensor(value) else None for value in kept))

    def arguments(self, saved: Sequence[Any], given: Sequence[Any]) -> list[Any]:
        """What the graph is called with. `saved`: the tensors that autograd gives back; `given`: the gradients or tangents."""
        kept = zip(self._numbers, saved, self._others, strict=True)
        return [given[-1 - index] if index < 0 else other if tensor is None else tensor for index, tensor, other in kept]


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
        values = (*inputs[1:], *output)
        ctx.for_backward = _Kept(plan.read_by_backward, values, ctx.save_for_backward)
        if plan.jvp is not None:
            ctx.for_jvp = _Kept(plan.read_by_jvp, values, ctx.save_for_forward)
        layout = plan.layout
        hidden = {*layout.not_differentiable, *range(layout.outputs, len(output))}
        ctx.mark_non_differentiable(*(output[index] for index in sorted(hidden)))
        ctx.plan, ctx.hidden = plan, len(output) - layout.outputs

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[Any, ...]:
        plan: Plan = ctx.plan
        assert plan.backward is not None
        taken = ctx.for_backward.arguments(ctx.saved_tensors, [gradient.contiguous() for gradient in gradients])
        return (None, *plan.backward(*taken), *(None,) * plan.captured)

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: torch.Tensor) -> tuple[Any, ...]:
        plan: Plan = ctx.plan
        if plan.jvp is None:
            raise NotImplementedError(_NO_JVP)
        made = plan.jvp(*ctx.for_jvp.arguments(ctx.saved_tensors, tangents))
        return (*made, *(None,) * ctx.hidden)


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
        plan = Plan(forward, backwards[0] if backwards else None, jvp, named, len(captured))
        outputs = _subclass_named(named.name, TransformedTracedFunction).apply(plan, *inputs, *captured)[: named.outputs]
    else:
        graphs = Graphs(forward, backwards, jvp)
        outputs = _subclass_named(named.name, TracedFunction).apply(graphs, named, captured, *inputs)
    return outputs if named.is_tuple else outputs[0]


def run_traced_function_(*args: Any, **kwargs: Any) -> Any:
    """The same for a function that writes to its inputs. By the underscore, `operators.facts` knows that the operation writes."""
    return run_traced_function(*args, **kwargs)
