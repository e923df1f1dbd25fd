"""Leaves that require gradients and that the program makes, where their gradients would be lost in a graph: parameters, and what
a compiler's graph would return.

The output code makes them, empty, before the graph. There, such a leaf is a tensor in the memory of its data that has the leaf
behind it; where it leaves the graph, the leaf is given that memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from shapes.printing import python_source
from tracer import _C
from tracer.effects.random_draws import Computed, Draw
from tracer.graph.fakes.exchanged_data import exchanged
from tracer.graph.fakes.fake_tensors import concrete, is_symbolic
from tracer.graph.output_graph import EXAMPLE
from tracer.graph_breaks import unsupported
from tracer.sources import DrawnTensorSource

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.variables.tensors.tensor import TensorVariable


class HeldLeaf(NamedTuple):
    """Which of the things that the output code makes first a leaf is that is no parameter, and what it holds."""

    number: int
    data: TensorVariable

    def reconstruct(self, cg: ValueCodegen) -> None:
        load_filled(cg, self.number, self.data)


def no_leaf_can_be_made(tx: Tracer) -> bool:
    """Under a transform of torch.func, in inference mode, and where somebody watches what the code that is traced changes."""
    watched = tx.effects.observer is not None
    return watched or torch._C._are_functorch_transforms_active() or torch.is_inference_mode_enabled()


def hold_leaf(tx: Tracer, tensor: TensorVariable) -> None:
    """From now on a leaf of the graph that requires a gradient is one that the output code makes."""
    fake = tensor.fake
    plain = tensor.cls is torch.Tensor and tensor.source is None and not tensor.is_made_parameter
    beside = any(isinstance(user.meta[EXAMPLE], torch.Tensor) and user.meta[EXAMPLE]._base is fake for user in tensor.node.users)
    if not plain or no_leaf_can_be_made(tx) or beside or fake._is_view() or _sizes_before_the_graph(tx, fake) is None:
        return
    data: Any = tx.output.call_method("detach", (tensor.node,), {})
    step = tx.break_step()
    number, inside = in_leaf(tx, empty_leaf, data, step)
    tensor.node, tensor.fake, tensor.is_made_parameter = inside.node, inside.fake, True
    tensor.held = HeldLeaf(number, data)
    tx.output.track(tensor.fake, tensor)


def in_leaf(tx: Tracer, make: Callable[..., torch.Tensor], data: TensorVariable, step: int | None) -> tuple[int, TensorVariable]:
    """A tensor of the graph in the memory of `data` that has an empty leaf behind it; which one."""
    fake = data.fake
    sizes = _sizes_before_the_graph(tx, fake)
    if sizes is None:
        unsupported("tensor-subclass", cls="Parameter", source="sizes that depend on data, or numbers that have no gradient")
    number = tx.effects.draw(Draw(make, None, (fake.dtype, fake.device, *sizes), {}))
    empty = tx.output.world.run(make, (fake.dtype, fake.device, *fake.shape), {})
    real = make(fake.dtype, fake.device, *map(concrete, fake.shape))
    node = tx.output.add_input(DrawnTensorSource(number), real, empty, own_memory=True)
    inside: Any = tx.output.call_function(exchanged, (node, data.node), {})
    inside.fake.exchanged_at = step
    tx.output.function_views.note([inside.fake], [fake], step)
    return number, inside


def _sizes_before_the_graph(tx: Tracer, fake: torch.Tensor) -> list[int | Computed] | None:
    """As they are computed of the sizes of inputs. None: no such leaf can be made before the graph runs."""
    if fake.layout is not torch.strided or not (fake.dtype.is_floating_point or fake.dtype.is_complex):
        return None
    sizes: list[int | Computed] = []
    for size in fake.shape:
        number: Any = size
        if not is_symbolic(number):
            sizes.append(int(number))
            continue
        reduced = number.node.reduced()
        symbols = tx.output.world.torch_env.symbols_of(reduced)
        if not all(symbol.backed and symbol.label is not None for symbol in symbols):
            return None
        names = {symbol.sympy: f"v{index}" for index, symbol in enumerate(symbols)}
        sizes.append(Computed(python_source(reduced.sympy, names), tuple(symbol.label for symbol in symbols)))
    return sizes


# -- in the output code ------------------------------------------------------------------------------------------------


def load_filled(cg: ValueCodegen, number: int, data: TensorVariable) -> None:
    """-> the leaf, with its data"""
    cg.call_object(_filled, lambda: cg.load_drawn(number), lambda: cg.load_graph_output(data))


def empty_parameter(dtype: torch.dtype, device: torch.device, *sizes: int) -> torch.Tensor:
    with torch.inference_mode(False):
        return torch.nn.Parameter(torch.empty(sizes, dtype=dtype, device=device))


def empty_leaf(dtype: torch.dtype, device: torch.device, *sizes: int) -> torch.Tensor:
    with torch.inference_mode(False):
        return torch.empty(sizes, dtype=dtype, device=device, requires_grad=True)


def _filled(leaf: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    leaf.data = data
    _C.share_version(leaf, data)  # autograd notices writes to what the graph has kept for gradients
    return leaf


for _function in (empty_parameter, empty_leaf, _filled):
    _C.never_trace(_function.__code__)
