"""Nested tensors of a graph and their ragged sizes, rebuilt for torch's compilers, which take each nested tensor apart into the
tensors that it is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from tracer.graph.fakes.nested_fakes import around, nested_in, ragged_size_of
from tracer.graph.output_graph import EXAMPLE
from tracer.graph.symbols.ragged import RaggedSize

Convert = Callable[[Any], Any]


def has_nested(graph: fx.Graph) -> bool:
    """Whether a graph has nested tensors. Compilers support few of the operations on them, above all in backward passes."""
    return any(nested_in(node.meta.get(EXAMPLE)) for node in graph.nodes)


class NestedInputs:
    """The ragged sizes of one compile: torch's for each of the tracer's."""

    def __init__(self, mode: Any, number: Convert) -> None:
        """`mode`: the compile's fake mode. `number`: gives torch's symbolic number for one of the tracer's."""
        self.mode = mode
        self.number = number
        self._sizes: dict[int, Any] = {}

    def size(self, own: RaggedSize) -> Any:
        """torch's form of a ragged size, or of a multiple of it."""
        if own.number not in self._sizes:
            with self.mode:
                self._sizes[own.number] = self.mode.create_symbolic_nested_int()
        return self._sizes[own.number] * self.number(own.factor.shape_env.wrap(own.factor.value))

    def rebuilt(self, own: Any, convert: Convert) -> torch.Tensor:
        """A nested tensor like one of the tracer's, around tensors that `convert` gives for those of that one."""
        with torch.no_grad():
            seqlens = {name: convert(tensor) for name, tensor in own._metadata_cache.items()}
            lengths = None if own._lengths is None else self.keeping_size(own._lengths, convert(own._lengths))
            offsets = self.keeping_size(own._offsets, convert(own._offsets))
            return around(convert(own._values), offsets, lengths, own._ragged_idx, seqlens)

    def keeping_size(self, own: Any, theirs: Any) -> Any:
        """`theirs`, which stands for `own`, with the ragged size that belongs to this one as offsets or lengths."""
        size = ragged_size_of(own)
        if size is not None:
            theirs.nested_int_memo = self.size(size)
        return theirs
