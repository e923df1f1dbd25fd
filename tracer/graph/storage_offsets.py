"""Where inputs begin in their storage: a constant of the trace, guarded on once a program relies on it."""

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
    """The storage offset of a view of an input, guarded on; None for what the graph makes, or where it varies."""
    if not _rely_on_inputs(output, fake):
        return None
    offset: int | torch.SymInt = fake.storage_offset()
    return offset if isinstance(offset, int) else None


def check_placement(output: OutputGraph, target: object, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """An operation that counts from the beginning of an input's storage needs the input to begin there, too, but where
    the graph runs as it is written: Inductor counts from the input's beginning."""
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
    """The offsets of the inputs with this storage, each with a guard that it stays so."""
    storage, env = fake.untyped_storage()._cdata, output.world.env
    found = []
    for item in output.inputs.values():
        if isinstance(item.fake, torch.Tensor) and item.fake.untyped_storage()._cdata == storage:
            label = StorageOffsetSource(item.source)
            found.append(env.evaluate_int(env.create_int(item.real.storage_offset(), label)))
    return found
