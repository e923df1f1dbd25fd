"""Storage offsets of inputs: constants of the trace, guarded as soon as the program relies on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from tracer.graph_breaks import unsupported
from tracer.operators.facts import argument, offset_argument
from tracer.sources.tensors import StorageOffsetSource

if TYPE_CHECKING:
    from tracer.graph.output_graph import OutputGraph


def offset_in_storage(output: OutputGraph, fake: torch.Tensor) -> int | None:
    """The storage offset of a view of an input, guarded; None for tensors that the graph makes, or if it is symbolic."""
    if not _rely_on_inputs(output, fake):
        return None
    offset: int | torch.SymInt = fake.storage_offset()
    return offset if isinstance(offset, int) else None


def check_placement(output: OutputGraph, target: object, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Breaks the graph for an operation that counts from the start of a storage (as_strided) if an input with that storage does
    not begin there. Inductor counts from the input's start; a backend that runs the graph as written does not."""
    place = offset_argument(target)
    if place is None:
        return
    given = argument(place, args, kwargs)
    tensor = args[0] if args else kwargs.get("input")
    if given is None or not isinstance(tensor, torch.Tensor):
        return
    behind = any(_rely_on_inputs(output, tensor))
    if behind and not output.runs_as_written:
        unsupported("offset-in-storage", operator=target if isinstance(target, str) else getattr(target, "__name__", ""))


def _rely_on_inputs(output: OutputGraph, fake: torch.Tensor) -> list[int]:
    """The offsets of the inputs with this storage. Each is guarded."""
    storage, env = fake.untyped_storage()._cdata, output.world.env
    found = []
    for item in output.inputs.values():
        if item.storage == storage:
            label = StorageOffsetSource(item.source)
            found.append(env.evaluate_int(env.create_int(item.real.storage_offset(), label)))
    return found
