"""The jvp of an `autograd.Function`, traced where an input of the call has a tangent: a graph of its own, which runs right behind
that of forward."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import torch
from torch import fx
from torch.autograd import forward_ad

from tracer.effects.dual_levels import level_of, tangent_of
from tracer.graph.output_graph import EXAMPLE
from tracer.graph_breaks import unsupported
from tracer.library.subgraphs import recording
from tracer.protocol.variable import ObservedException, VariableTracker
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.containers.tuples import TupleVariable
from tracer.variables.functions.autograd_context import FunctionContextVariable
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.values.constant import NONE

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker


@contextlib.contextmanager
def without_tangents() -> Iterator[None]:
    """Within, operations compute no tangents."""
    before = forward_ad._is_fwd_grad_enabled()
    torch._C._set_fwd_grad_enabled(False)
    try:
        yield
    finally:
        torch._C._set_fwd_grad_enabled(before)


class TracedJvp(NamedTuple):
    """`read`: the nodes that the graph reads, and negative numbers for the tangents of inputs."""

    read: tuple[fx.Node | int, ...]
    module: fx.GraphModule

    def numbers(self, numbers: dict[Any, int]) -> tuple[int, ...]:
        return tuple(number if isinstance(number, int) else numbers[number] for number in self.read)


class Jvp:
    """That of one call."""

    def __init__(self, tx: Tracer, cls: ClassVariable, context: FunctionContextVariable, inputs: Sequence[Value]) -> None:
        self.tx, self.cls, self.context, self.inputs = tx, cls, context, inputs
        levels = torch._C._functorch.get_interpreter_stack() or []
        self.is_transformed = bool(levels)
        level = -1 if levels else level_of(tx.trace.torch_state)
        self._tangents: list[torch.Tensor | None] = []  # of each input
        for value in inputs:
            fake = value.fake if level >= 0 and isinstance(value, TensorVariable) else None
            self._tangents.append(None if fake is None else tx.output.world.run(lambda each: tangent_of(each, level), (fake,)))
        # A transform of torch.func asks for tangents at each of its levels, of the inputs that have one there.
        under_jvp = any(each.key().name == "Jvp" for each in levels)
        self.is_run = under_jvp or any(tangent is not None for tangent in self._tangents)

    def _refuse(self, why: str) -> NoReturn:
        unsupported("autograd-in-trace", name=f"the jvp of {self.cls.value.__qualname__}.apply, which {why},")

    def traced(self, outputs: list[fx.Node | None], materializes: bool) -> TracedJvp:
        """Traces jvp. Its graph returns the tangent of each output. `materializes`: zeros stand for missing tangents."""
        tx = self.tx
        function: Any = self.cls.value
        if function.jvp is torch.autograd.Function.jvp:
            self._refuse("is not defined")
        nodes: list[fx.Node | None] = []
        for value, tangent in zip(self.inputs, self._tangents):
            nodes.append(self._tangent(value, tangent, materializes))
        before = dict(self.context.attributes)
        arguments = [NONE if node is None else TensorVariable(node, node.meta[EXAMPLE]) for node in nodes]
        self.context.in_jvp = True
        with recording(tx, f"the jvp of {self.cls.value.__qualname__}.apply", self.inputs) as part, without_tangents():
            try:
                result = self.cls.get_attr(tx, "jvp").call(tx, [self.context, *arguments], {})
            except ObservedException:
                if self.is_transformed:  # where no input has a tangent, it is not run
                    self._refuse("raises an error")
                raise
        self.context.in_jvp = False
        if any(before.get(name) is not value for name, value in self.context.attributes.items()):
            self._refuse("stores something for backward")
        given = result.unpack(tx) if isinstance(result, TupleVariable) else [result]
        if len(given) != len(outputs) or not all(value.is_none() or isinstance(value, TensorVariable) for value in given):
            self._refuse("gives tangents for other outputs")
        subgraph = part.cut([None if value.is_none() else value.graph_arg() for value in given])
        tensors = [node for value, node in zip(self.inputs, nodes) if isinstance(value, TensorVariable)]
        numbers = {node: -1 - index for index, node in enumerate(tensors) if node is not None}
        for node in reversed(numbers):
            tx.output.graph.erase_node(node)
        return TracedJvp(tuple(numbers.get(node, node) for node in subgraph.read), subgraph.module)

    def _tangent(self, value: Value, tangent: torch.Tensor | None, materializes: bool) -> fx.Node | None:
        """A node that stands for the tangent that jvp is given for an input; None where that is None."""
        if not isinstance(value, TensorVariable) or (tangent is None and not materializes):
            return None
        with without_tangents():
            if tangent is None:
                example = self.tx.output.run_fake(torch.zeros_like, (value.fake,), {}, torch.zeros_like)
            else:  # another object, because the tangent itself may be a value of the graph
                example = self.tx.output.run_fake(torch.Tensor.view_as, (tangent, tangent), {}, torch.Tensor.view_as)
        return self.tx.output.create_node("call_function", torch.zeros_like, (value.node,), {}, example)
