"""Parameters and buffers that the program makes.

A parameter that requires a gradient is a leaf, and its gradient has to arrive whatever a backend makes of the graph. So the
output code makes it, empty, before the graph; in the graph it is a tensor in the memory of its data that has the parameter behind
it (`graph.exchanged_data`), and where it leaves the graph it is given that memory. So are other leaves, where a backend would
lose them in the graph (`HeldLeaf`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import fx

from tracer import _C
from tracer.effects.draws import Draw
from tracer.graph.exchanged_data import exchanged
from tracer.graph.output_graph import EXAMPLE
from tracer.graph_breaks import unsupported
from tracer.sources import DrawnTensorSource
from tracer.variables.tensor import TensorVariable
from tracer.variables.tensor_data import refuse_unlike_data

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer


class MadeParameterVariable(TensorVariable):
    """`data` computes what it holds; `number` says which of the things that the output code makes first it is, if any. As long
    as no gradient leads to it, it may be filled anew."""

    number: int | None

    def __init__(self, tx: Tracer, data: TensorVariable, requires_grad: bool) -> None:
        super().__init__(data.node, data.fake, None, torch.nn.Parameter)
        self.hold(tx, data, requires_grad)

    def hold(self, tx: Tracer, data: TensorVariable, requires_grad: bool) -> None:
        self.held_from = tx.break_step()  # type: ignore[attr-defined]
        self.data = data
        self.number = None
        self.node, self.fake = data.node, data.fake
        if requires_grad:
            self._hold_in_leaf(tx, data)
        self.is_made_parameter = requires_grad
        self.fake._is_param = True  # type: ignore[attr-defined]  # isinstance(fake, torch.nn.Parameter) looks here
        tx.output.track(self.fake, self)

    def _hold_in_leaf(self, tx: Tracer, data: TensorVariable) -> None:
        self.number, inside = _in_leaf(tx, empty_parameter, data, self.held_from)
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
        """Gradients that lead here would go to the parameter that was; and what a write has made of it is more than its data."""
        special = torch._C._are_functorch_transforms_active() or torch.is_inference_mode_enabled()
        special = special or tx.trace.overrides.active or tx.effects.observer is not None
        leads_here = any(map(self._leads_here, self.node.users))
        if special or leads_here or self.has_lost_leaf:
            value = f"{self.describe()}, which gradients may lead to,"
            step = None if self.is_made_parameter else self.held_from  # views are to be those of the very leaf
            unsupported("unsupported-attribute-store", break_step=step, value=value, name=name)

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

    def reconstruct(self, cg: Any) -> None:
        number = self.number
        if self.has_lost_leaf:
            unsupported("mutation-of-input", break_step=self.held_from, value="a parameter that a write gives a history")
        if number is None:
            cg.call_object(_without_gradient, lambda: cg.load_graph_output(self))
        else:
            cg.call_object(_filled, lambda: cg.load_drawn(number), lambda: cg.load_graph_output(self.data))


class HeldLeaf(NamedTuple):
    """Which of the things that the output code makes first a leaf is that is no parameter, and what it holds."""

    number: int
    data: TensorVariable

    def reconstruct(self, cg: Any) -> None:
        cg.call_object(_filled, lambda: cg.load_drawn(self.number), lambda: cg.load_graph_output(self.data))


def hold_leaf(tx: Tracer, tensor: TensorVariable) -> None:
    """From now on a leaf of the graph that requires a gradient is one that the output code makes."""
    fake = tensor.fake
    plain = tensor.cls is torch.Tensor and tensor.source is None and not isinstance(tensor, MadeParameterVariable)
    beside = any(isinstance(user.meta[EXAMPLE], torch.Tensor) and user.meta[EXAMPLE]._base is fake for user in tensor.node.users)
    special = torch._C._are_functorch_transforms_active() or tx.effects.observer is not None or torch.is_inference_mode_enabled()
    if not plain or special or beside or fake._is_view() or not _may_be_made_first(fake):
        return
    data: Any = tx.output.call_method("detach", (tensor.node,), {})
    step = tx.break_step()  # type: ignore[attr-defined]
    number, inside = _in_leaf(tx, empty_leaf, data, step)
    tensor.node, tensor.fake, tensor.is_made_parameter = inside.node, inside.fake, True
    tensor.held = HeldLeaf(number, data)
    tx.output.track(tensor.fake, tensor)


def _in_leaf(tx: Tracer, make: Callable[..., torch.Tensor], data: TensorVariable, step: int | None) -> tuple[int, TensorVariable]:
    """A tensor of the graph in the memory of `data` that has an empty leaf behind it; which one."""
    fake = data.fake
    if not _may_be_made_first(fake):
        why = "sizes that are not constant, or numbers that have no gradient"
        unsupported("tensor-subclass", cls="Parameter", source=why)
    args = tuple(fake.shape), fake.dtype, fake.device
    number = tx.effects.draw(Draw(make, None, args, {}))
    empty = tx.output.world.run(make, args, {})
    node = tx.output.add_input(DrawnTensorSource(number), make(*args), empty, own_memory=True)
    inside: Any = tx.output.call_function(exchanged, (node, data.node), {})
    inside.fake.exchanged_at = step
    tx.output.function_views.note([inside.fake], [fake], step)
    return number, inside


def _may_be_made_first(fake: torch.Tensor) -> bool:
    """Whether a leaf like this can be made before the graph runs."""
    constant = all(type(size) is int for size in fake.shape) and fake.layout is torch.strided
    return constant and (fake.dtype.is_floating_point or fake.dtype.is_complex)


def make_parameter(tx: Tracer, data: TensorVariable, requires_grad: bool) -> TensorVariable:
    """torch.nn.Parameter(data, requires_grad)"""
    detached: Any = tx.output.call_method("detach", (data.node,), {})
    return MadeParameterVariable(tx, detached, requires_grad)


def empty_parameter(sizes: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    with torch.inference_mode(False):
        return torch.nn.Parameter(torch.empty(sizes, dtype=dtype, device=device))


def empty_leaf(sizes: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    with torch.inference_mode(False):
        return torch.empty(sizes, dtype=dtype, device=device, requires_grad=True)


def _filled(parameter: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    parameter.data = data
    _C.share_version(parameter, data)  # autograd notices writes to what the graph has kept for gradients
    return parameter


def _without_gradient(data: torch.Tensor) -> torch.Tensor:
    return torch.nn.Parameter(data, False)


for _function in (empty_parameter, empty_leaf, _filled, _without_gradient):
    _C.never_trace(_function.__code__)
