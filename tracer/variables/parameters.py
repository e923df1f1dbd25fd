"""Parameters and buffers that the program makes.

A parameter that requires a gradient is a leaf, and its gradient has to arrive whatever a backend makes of the graph. So the
output code makes it, empty, before the graph; in the graph it is a tensor in the memory of its data that has the parameter behind
it (`graph.exchanged_data`), and where it leaves the graph it is given that memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from tracer import _C
from tracer.effects.draws import Draw
from tracer.graph.exchanged_data import exchanged
from tracer.graph_breaks import unsupported
from tracer.sources import DrawnTensorSource
from tracer.variables.tensor import TensorVariable

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer


class MadeParameterVariable(TensorVariable):
    """`data` computes what it holds; `number` says which of the things that the output code makes first it is, if any."""

    def __init__(self, node: fx.Node, fake: Any, data: TensorVariable, number: int | None) -> None:
        super().__init__(node, fake, None, torch.nn.Parameter)
        self.data = data
        self.number = number
        self.is_made_parameter = number is not None

    def reconstruct(self, cg: Any) -> None:
        number = self.number
        if number is None:
            cg.call_object(_without_gradient, lambda: cg.load_graph_output(self))
        else:
            cg.call_object(_filled, lambda: cg.load_drawn(number), lambda: cg.load_graph_output(self.data))


def make_parameter(tx: Tracer, data: TensorVariable, requires_grad: bool) -> TensorVariable:
    """torch.nn.Parameter(data, requires_grad)"""
    detached: Any = tx.output.call_method("detach", (data.node,), {})
    if not requires_grad:
        made = MadeParameterVariable(detached.node, detached.fake, detached, None)
        return _tracked(tx, made)
    fake = detached.fake
    sizes = tuple(fake.shape)
    if not all(type(size) is int for size in sizes) or not (fake.dtype.is_floating_point or fake.dtype.is_complex):
        unsupported("tensor-subclass", cls="Parameter", source="sizes that are not constant, or numbers that have no gradient")
    step = tx.break_step()  # type: ignore[attr-defined]
    args = sizes, fake.dtype, fake.device
    number = tx.effects.draw(Draw(empty_parameter, None, args, {}))
    empty = tx.output.world.run(empty_parameter, args, {})
    node = tx.output.add_input(DrawnTensorSource(number), empty_parameter(*args), empty, own_memory=True)
    inside: Any = tx.output.call_function(exchanged, (node, detached.node), {})
    inside.fake.exchanged_at = step
    return _tracked(tx, MadeParameterVariable(inside.node, inside.fake, detached, number))


def _tracked(tx: Tracer, made: MadeParameterVariable) -> TensorVariable:
    made.fake._is_param = True  # type: ignore[attr-defined]  # isinstance(fake, torch.nn.Parameter) looks here
    tx.output.track(made.fake, made)
    return made


def empty_parameter(sizes: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    with torch.inference_mode(False):
        return torch.nn.Parameter(torch.empty(sizes, dtype=dtype, device=device))


def _filled(parameter: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    parameter.data = data
    _C.share_version(parameter, data)  # autograd notices writes to what the graph has kept for gradients
    return parameter


def _without_gradient(data: torch.Tensor) -> torch.Tensor:
    return torch.nn.Parameter(data, False)


for _function in (empty_parameter, _filled, _without_gradient):
    _C.never_trace(_function.__code__)
