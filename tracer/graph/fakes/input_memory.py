"""Which inputs of a graph lie in the same memory. It matters where the graph writes to one of them and a backend may
compute in another order: what overlaps has to be known to it, and has to overlap in just this way at every call."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch

from tracer import _C
from tracer.graph_breaks import unsupported
from tracer.operators.facts import offset_argument

if TYPE_CHECKING:
    from tracer.graph.output_graph import GraphInput


@dataclasses.dataclass(frozen=True)
class Sharing:
    """The inputs that a graph writes to, each with those that overlap it, and all others."""

    groups: list[list[GraphInput]]
    others: list[GraphInput]
    whole: bool  # the storages are meant: the graph reaches beyond the elements of its inputs

    def inputs(self) -> list[GraphInput]:
        return [*(item for group in self.groups for item in group), *self.others]

    def sizes(self) -> tuple[int, ...]:
        return tuple(map(len, self.groups))


class InputMemory:
    """The memory of the inputs of one graph. Inputs that overlap have fakes with one storage."""

    def __init__(self) -> None:
        self._inputs: list[tuple[GraphInput, int]] = []  # with the storages of their fakes
        self._written: set[int] = set()
        self._checked = 0
        self._whole = False

    def add(self, item: GraphInput) -> None:
        self._inputs.append((item, item.fake.untyped_storage()._cdata))
        if self._checked:
            self._check()

    def note(self, target: Any, written: set[int]) -> None:
        """After an operation, with the storages of fakes that were written to so far."""
        whole = self._whole or offset_argument(target) is not None
        if len(written) != self._checked or whole != self._whole:
            self._written, self._checked, self._whole = written, len(written), whole
            self._check()

    def sharing(self, inputs: list[GraphInput] | None = None) -> Sharing:
        """Of all inputs, or of those that have stayed in the graph."""
        kept = None if inputs is None else set(map(id, inputs))
        groups: dict[int, list[GraphInput]] = {}
        others = []
        for item, storage in self._inputs:
            if kept is not None and id(item) not in kept:
                continue
            if storage in self._written:
                groups.setdefault(storage, []).append(item)
            else:
                others.append(item)
        return Sharing(list(groups.values()), others, self._whole)

    def _check(self) -> None:
        sharing = self.sharing()
        for group in sharing.groups:
            if len(group) > 1 and any(item.real.requires_grad for item in group):
                unsupported("mutation-of-input", value="memory that inputs share of which one requires a gradient")
            if len({item.real.dtype for item in group}) > 1:
                unsupported("mutation-of-input", value="memory that inputs of several dtypes share")
        if not _C.memory_apart(sharing.sizes(), sharing.whole, *(item.real for item in sharing.inputs())):
            unsupported("mutation-of-input", value="memory that inputs share, in a way that backends cannot be told,")


class RealMemory:
    """The memory of tensors for which fakes were made, so that those of tensors that overlap share a storage."""

    def __init__(self) -> None:
        self._known: dict[int, list[tuple[int, int, torch.UntypedStorage]]] = {}

    def shared_with(self, tensor: torch.Tensor) -> torch.UntypedStorage | None:
        """The storage of the fake of an earlier tensor that overlaps this one."""
        storage, start, end, *_ = _C.memory_extent(tensor, False)
        for other_start, other_end, fake_storage in self._known.get(storage, ()):
            if start < other_end and other_start < end:
                return fake_storage
        return None

    def add(self, tensor: torch.Tensor, fake_storage: torch.UntypedStorage) -> None:
        storage, start, end, *_ = _C.memory_extent(tensor, False)
        self._known.setdefault(storage, []).append((start, end, fake_storage))
