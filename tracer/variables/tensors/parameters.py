"""Parameters and buffers that the program makes.

A parameter that requires a gradient is a leaf, and its gradient has to arrive whatever a backend makes of the graph. So the
output code makes it, empty, before the graph; in the graph it is a tensor in the memory of its data that has the parameter behind
it (`graph.fakes.exchanged_data`), and where it leaves the graph it is given that memory (`variables.tensors.created_leaves`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from tracer import _C
from tracer.graph.fakes.fake_tensors import mark_as_parameter
from tracer.graph.output_graph import EXAMPLE
from tracer.graph_breaks import unsupported
from tracer.variables.tensors.created_leaves import empty_parameter, in_leaf, load_filled, no_leaf_can_be_made
from tracer.variables.tensors.tensor import TensorVariable
from tracer.variables.tensors.tensor_data import refuse_unlike_data

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen


class MadeParameterVariable(TensorVariable):
    """`data` computes what it holds; `number` says which of the things that the output code makes first it is, if any. As long
    as no gradient leads to it, it may be filled anew."""

    number: int | None

    def __init__(self, tx: Tracer, data: TensorVariable, requires_grad: bool) -> None:
        super().__init__(data.node, data.fake, None, torch.nn.Parameter)
        self.hold(tx, data, requires_grad)

    def hold(self, tx: Tracer, data: TensorVariable, requires_grad: bool) -> None:
        self.held_from = tx.break_step()
        self.data = data
        self.number = None
        self.node, self.fake = data.node, data.fake
        if requires_grad:
            self._hold_in_leaf(tx, data)
        self.is_made_parameter = requires_grad
        mark_as_parameter(self.fake)
        tx.output.track(self.fake, self)

    def _hold_in_leaf(self, tx: Tracer, data: TensorVariable) -> None:
        self.number, inside = in_leaf(tx, empty_parameter, data, self.held_from)
        self.node, self.fake = inside.node, inside.fake

    def exchange(self, tx: Tracer, other: TensorVariable) -> None:
        refuse_unlike_data(tx, self, other.fake)
        if other.fake.dtype != self.fake.dtype and tx.effects.attribute(self, "grad") is not None:
            unsupported("unsupported-attribute-store", value=f"{self.describe()}, which has a gradient,", name="data")
        self._refuse_history(tx, "data")
        data: Any = tx.output.call_function(getattr, (other.node, "data"), {})
        self.hold(tx, data, self.is_made_parameter)

    def require_gradient(self, tx: Tracer, wanted: bool) -> TensorVariable:
        self._refuse_history(tx, "requires_grad")
        data: Any = tx.output.call_method("detach", (self.data.node,), {})
        self.hold(tx, data, wanted)
        return self

    def _refuse_history(self, tx: Tracer, name: str) -> None:
        """Gradients that lead here would go to the parameter that was; and what a write has made of it is more than its data.
        Then CPython makes it: autograd goes by the data that the leaf itself has later on, and views are those of the leaf."""
        special = no_leaf_can_be_made(tx) or tx.trace.overrides.active or self.hooked_at is not None
        leads_here = any(map(self._leads_here, self.node.users))
        if special or leads_here or self.has_lost_leaf:
            value = f"{self.describe()}, which gradients may lead to,"
            unsupported("unsupported-attribute-store", break_step=self.held_from, value=value, name=name)

    def _leads_here(self, user: fx.Node) -> bool:
        """Whether a node of the graph that reads the parameter may have a history that begins with it. A view has when it has."""
        example = user.meta[EXAMPLE]
        tensors = example if isinstance(example, (tuple, list)) else [example]
        if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
            return self.is_made_parameter
        others = [tensor for tensor in tensors if tensor is not self.fake]
        return any(each._base is self.fake or (self.is_made_parameter and each.requires_grad) for each in others)

    @property
    def has_lost_leaf(self) -> bool:
        """Whether a write to what was a leaf without gradients has made it a result of an operation."""
        return self.number is None and self.fake.requires_grad

    def reconstruct(self, cg: ValueCodegen) -> None:
        number = self.number
        if self.has_lost_leaf:
            unsupported("mutation-of-input", break_step=self.held_from, value="a parameter that a write gives a history")
        if number is None:
            cg.call_object(_without_gradient, lambda: cg.load_graph_output(self))
        else:
            load_filled(cg, number, self.data)


def make_parameter(tx: Tracer, data: TensorVariable, requires_grad: bool) -> TensorVariable:
    """torch.nn.Parameter(data, requires_grad)"""
    detached: Any = tx.output.call_method("detach", (data.node,), {})
    return MadeParameterVariable(tx, detached, requires_grad)


def _without_gradient(data: torch.Tensor) -> torch.Tensor:
    return torch.nn.Parameter(data, False)


_C.never_trace(_without_gradient.__code__)
