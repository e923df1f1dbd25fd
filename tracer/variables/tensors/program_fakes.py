"""Fake tensors of the program itself: those of a `FakeTensorMode` that it has made. In the graph they are tensors like others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.graph.fakes.program_fakes import FAKE_CLASS
from tracer.graph_breaks import unsupported
from tracer.variables.tensors.tensor import TensorVariable

if TYPE_CHECKING:
    import torch
    from torch import fx

    from tracer.protocol.tracer import Tracer
    from tracer.protocol.variable import VariableTracker
    from tracer.sources.base import Source

# What only fake tensors have, and what asks for memory, which they do not have.
_SAYS_IT_IS_FAKE = (vars(FAKE_CLASS).keys() | FAKE_CLASS.__annotations__.keys()) - vars(object).keys() - {"device"}
_ASKS_MEMORY = frozenset("numpy data_ptr __array__ untyped_storage storage share_memory_ is_shared tolist".split())


class ProgramFakeVariable(TensorVariable):
    """A fake tensor of the program, or what an operation gives that runs on one or under the mode."""

    def __init__(self, node: fx.Node, fake: torch.Tensor, source: Source | None = None, cls: type = FAKE_CLASS) -> None:
        super().__init__(node, fake, source, cls)

    def describe(self) -> str:
        return f"ProgramFakeVariable({self.node.name})"

    def get_attr(self, tx: Tracer, name: str) -> VariableTracker:
        if name in _SAYS_IT_IS_FAKE or name in _ASKS_MEMORY:
            unsupported("unsupported-attribute", value="a fake tensor of the program", name=name)
        return super().get_attr(tx, name)
