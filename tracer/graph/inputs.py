"""The inputs of the graph of one trace."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import fx

from tracer.operators.sparse_rules import is_sparse

if TYPE_CHECKING:
    from tracer.sources.base import Source

EXAMPLE = "example_value"  # in the `meta` of a node: the fake value that it gives


@dataclasses.dataclass
class GraphInput:
    """A placeholder, and the source from which the output code loads its value."""

    node: fx.Node
    source: Source
    real: Any

    @property
    def fake(self) -> Any:
        return self.node.meta[EXAMPLE]

    @property
    def storage(self) -> int | None:
        """That of the fake, if it has one."""
        fake = self.fake
        has_memory = isinstance(fake, torch.Tensor) and not is_sparse(fake)
        return fake.untyped_storage()._cdata if has_memory else None


class WrittenInput(NamedTuple):
    """An input that the graph writes to: whether it may fail after that, and whether a kernel writes to it, which the version of
    a tensor does not count."""

    item: GraphInput
    fails: bool
    uncounted: bool
