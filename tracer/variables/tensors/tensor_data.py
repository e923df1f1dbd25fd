"""`tensor.data = other`. In the graph, a new tensor in the memory of `other` represents the tensor from then on. The object
itself is given that memory after the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from tracer.graph.fakes.exchanged_data import data_for, exchanged, exchanged_at, input_exchanged_at, is_exchanged_leaf
from tracer.graph.fakes.wrapper_fakes import WrapperFake
from tracer.graph_breaks import unsupported
from tracer.guards.tensors import LeafMatch

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer
    from tracer.variables.tensors.tensor import TensorVariable


def exchange_data(tx: Tracer, tensor: TensorVariable, other: TensorVariable) -> None:
    before: Any = tensor.fake
    step = tx.break_step()
    leaf = bool(before.is_leaf) or is_exchanged_leaf(before)
    _refuse_what_cannot_be_told(tx, tensor, other.fake, leaf)
    refuse_unlike_data(tx, tensor, other.fake)
    resized = before.requires_grad and before.shape != other.fake.shape
    data: Any = tx.output.call_function(data_for, (tensor.node, other.node), {})
    if tensor.source is None:
        tx.effects.mutate(tensor)
    else:
        tx.effects.store_attribute(tensor, "data", data)
    node, fake = data.node, data.fake
    if before.requires_grad:
        made: Any = tx.output.call_function(exchanged, (tensor.node, data.node), {})
        node, fake = made.node, made.fake
        fake.exchanged_at = step if leaf else None
        fake.input_exchanged_at = None if tensor.source is None else step
        tx.output.function_views.note([fake], [data.fake], step)
        if resized:
            tx.output.resized_leaves.note(node, step)
    tx.output.track(fake, tensor)
    tensor.node, tensor.fake = node, fake


def _refuse_what_cannot_be_told(tx: Tracer, tensor: TensorVariable, data: torch.Tensor, leaf: bool) -> None:
    before = tensor.fake
    alike = before.dtype == data.dtype
    if before.requires_grad:
        of_input = leaf and tensor.source is not None  # of another size, it may not be used any more: see ResizedLeaves
        alike = alike and (of_input or before.shape == data.shape)
        if tensor.source is not None:
            tx.guard(LeafMatch(tensor.source, tensor.real(tx).is_leaf))
        elif leaf:
            alike = False
    if not alike:
        unsupported("unsupported-attribute-store", value=tensor.describe(), name="data")


def refuse_unlike_data(tx: Tracer, tensor: TensorVariable, data: torch.Tensor) -> None:
    before = tensor.fake
    alike = (before.device, before.layout) == (data.device, data.layout)
    plain = tensor.cls in (torch.Tensor, torch.nn.Parameter) and not (before.is_conj() or before.is_neg())
    plain = plain and type(data) is not WrapperFake
    if not alike or not plain or torch._C._are_functorch_transforms_active() or tx.trace.overrides.active:
        unsupported("unsupported-attribute-store", value=tensor.describe(), name="data")


def refuse_exchanged(tensor: TensorVariable) -> None:
    """Breaks the graph for a write that autograd records to a tensor whose data were exchanged.

    Of a leaf, this is an error, which needs the leaf itself. Of an input, it belongs to the history of the input, not to that of
    the tensor which represents it."""
    if not torch.is_grad_enabled():
        return
    for step, value in (exchanged_at(tensor.fake), "a leaf"), (input_exchanged_at(tensor.fake), "an input"):
        if step is not None:
            unsupported("mutation-of-input", break_step=step, value=f"{value} whose data were exchanged")
