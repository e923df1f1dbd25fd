"""Leaves that the program makes, that require gradients, and whose gradients would be lost if the graph made them: parameters,
and leaves that a compiled graph would return.

The output code makes each such leaf, empty, and passes it to the graph. In the graph it is represented by a tensor that shares
the memory of its data and has the leaf in its history. If the leaf is needed after the graph, its `data` is set to that memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from shapes.printing import python_source
from tracer import _C
from tracer.effects.random_draws import Computed, Draw
from tracer.graph.fakes.exchanged_data import exchanged
from tracer.graph.fakes.fake_tensors import is_symbolic
from tracer.graph.output_graph import EXAMPLE
from tracer.graph_breaks import unsupported
from tracer.operators.layout import hints
from tracer.sources.tensors import DrawnTensorSource

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen
    from tracer.variables.tensors.tensor import TensorVariable


class HeldLeaf(NamedTuple):
    """A leaf, not a parameter, that the output code makes before the graph. `number`: which of the objects made there it is."""

    number: int
    data: TensorVariable

    def reconstruct(self, cg: ValueCodegen) -> None:
        load_filled(cg, self.number, self.data)


def no_leaf_can_be_made(tx: Tracer) -> bool:
    """Whether a leaf cannot be made: under a torch.func transform, in inference mode, or while side effects are observed."""
    watched = tx.effects.observer is not None
    return watched or torch._C._are_functorch_transforms_active() or torch.is_inference_mode_enabled()


def hold_leaf(tx: Tracer, tensor: TensorVariable) -> None:
    """Replaces a leaf that the graph makes by one that the output code makes, if that is possible."""
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
    """(the number of a new empty leaf, a tensor of the graph in the memory of `data` with that leaf in its history)"""
    fake = data.fake
    sizes = _sizes_before_the_graph(tx, fake)
    if fake.device.type != "cpu" and tx.trace.torch_state.on_another_stream:  # the allocator gives memory to a stream
        unsupported("tensor-subclass", cls="Parameter", source="a stream that the program has entered")
    if sizes is None:
        unsupported("tensor-subclass", cls="Parameter", source="sizes that depend on data, or numbers that have no gradient")
    number = tx.effects.draw(Draw(make, None, (fake.dtype, fake.device, *sizes), {}))
    empty = tx.output.world.run(make, (fake.dtype, fake.device, *fake.shape), {})
    real = make(fake.dtype, fake.device, *hints(fake.shape))
    node = tx.output.add_input(DrawnTensorSource(number), real, empty, own_memory=True)
    inside: Any = tx.output.call_function(exchanged, (node, data.node), {})
    inside.fake.exchanged_at = step
    tx.output.function_views.note([inside.fake], [fake], step)
    return number, inside


def _sizes_before_the_graph(tx: Tracer, fake: torch.Tensor) -> list[int | Computed] | None:
    """The sizes, symbolic ones computed from the sizes of inputs. None if no such leaf can be made before the graph runs."""
    if fake.layout is not torch.strided or not (fake.dtype.is_floating_point or fake.dtype.is_complex):
        return None
    sizes = [size_before_the_graph(tx, size) for size in fake.shape]
    return None if any(size is None for size in sizes) else [size for size in sizes if size is not None]


def size_before_the_graph(tx: Tracer, size: Any) -> int | Computed | None:
    """A size, computed from the sizes of inputs where it is symbolic. None if data decide it."""
    if not is_symbolic(size):
        return int(size)
    reduced = size.node.reduced()
    symbols = tx.output.world.torch_env.symbols_of(reduced)
    if not all(symbol.backed and symbol.label is not None for symbol in symbols):
        return None
    names = {symbol.sympy: f"v{index}" for index, symbol in enumerate(symbols)}
    return Computed(python_source(reduced.sympy, names), tuple(symbol.label for symbol in symbols))


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
    _C.share_version(leaf, data)  # autograd notices writes to tensors that the graph saved for backward
    return leaf


for _function in (empty_parameter, empty_leaf, _filled):
    _C.never_trace(_function.__code__)
