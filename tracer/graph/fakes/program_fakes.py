"""Fake tensors of the program itself, from a `FakeTensorMode` that it has made. A graph that works on them has no data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from tracer.sources.reading import is_a

if TYPE_CHECKING:
    from torch import fx


class ProgramFakes:
    """Which nodes of one graph give fake tensors of the program."""

    def __init__(self, under_mode: bool) -> None:
        self._under_mode = under_mode  # a fake mode is on where the frame is called: what it computes is fake
        self._nodes: set[fx.Node] = set()

    @property
    def met(self) -> bool:
        """Whether the graph works on fake tensors of the program, wholly or in part."""
        return self._under_mode or bool(self._nodes)

    def add(self, node: fx.Node) -> None:
        """Notes an input that is one."""
        self._nodes.add(node)

    def come_from(self, node: fx.Node) -> bool:
        """Whether the tensors that an operation gives are such fakes: one of its arguments is, or the mode is on."""
        if self._under_mode or node in self._nodes:
            return True
        if self._nodes and any(map(self.come_from, node.all_input_nodes)):
            self._nodes.add(node)
            return True
        return False


#: The class of fake tensors, for those who may not import it.
FAKE_CLASS = FakeTensor


def is_program_fake(value: Any) -> bool:
    """Whether a value of the program is a fake tensor."""
    return type(value) is FakeTensor


def has_own_symbols(fake: FakeTensor) -> bool:
    """Whether sizes, strides or the offset of a fake tensor of the program are symbols of the program's shape env, which would
    not hear what the tracer asks of sizes."""
    numbers = (*fake.shape, *fake.stride(), fake.storage_offset()) if fake.layout is torch.strided else fake.shape
    return any(is_a(number, torch.SymInt) for number in numbers)
