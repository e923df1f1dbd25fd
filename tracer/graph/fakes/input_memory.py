"""Which inputs of a graph lie in the same memory. It matters if the graph writes to one of them and the backend may compute in
another order: the backend has to know what overlaps, and a guard checks that it overlaps in the same way at every call."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch

from tracer import _C
from tracer.graph.fakes.flattened import tensors_inside
from tracer.graph_breaks import unsupported
from tracer.operators.facts import offset_argument

if TYPE_CHECKING:
    from collections.abc import Set

    from torch import fx

    from tracer.graph.output_graph import GraphInput


@dataclasses.dataclass(frozen=True)
class Sharing:
    """Which inputs of a graph share memory with an input that it writes to."""

    groups: list[list[GraphInput]]  # for each storage that is written to, the inputs that lie in it
    others: list[GraphInput]
    whole: bool  # whole storages are compared, not only the elements of inputs, because the graph reaches beyond those

    def inputs(self) -> list[GraphInput]:
        return [*(item for group in self.groups for item in group), *self.others]

    def sizes(self) -> tuple[int, ...]:
        return tuple(map(len, self.groups))


class InputMemory:
    """The memory of the inputs of one graph. Inputs that overlap have fakes with one storage."""

    def __init__(self) -> None:
        self._inputs: list[tuple[GraphInput, int]] = []  # with the storages of their fakes
        self._nested: dict[int, list[fx.Node]] = {}  # storages of what nested tensors are made of, with its nodes
        self._written: Set[int] = set()  # storages of fakes that operations have written to
        self._checked = 0  # how many these were at the last check
        self._whole = False  # as in `Sharing`

    def add(self, item: GraphInput) -> None:
        self._inputs.append((item, item.fake.untyped_storage()._cdata))
        if self._checked:
            self._check()

    def add_nested(self, part: fx.Node) -> None:
        """Notes that an input is a nested tensor made of this tensor, an input as well; or that the program reads this part."""
        storage = part.meta["example_value"].untyped_storage()._cdata
        self._nested.setdefault(storage, []).append(part)
        if self._checked:
            self._check()

    def note(self, target: Any, written: Set[int]) -> None:
        """Called after an operation of the graph. `written`: the storages of fakes that were written to so far. Breaks the graph
        if the inputs share memory in a way that no guard can express."""
        whole = self._whole or offset_argument(target) is not None
        if len(written) != self._checked or whole != self._whole:
            self._written, self._checked, self._whole = written, len(written), whole
            self._check()
        elif self._nested and written:
            self._check_nested()

    def _check_nested(self) -> None:
        """Breaks the graph for a write to memory that a nested tensor shares with another input, or with a part of it that is
        used by itself. Compilers take nested tensors apart, and do not see that."""
        for storage, parts in self._nested.items():
            lone = len(parts) == 1 and not parts[0].users and sum(storage == other for _, other in self._inputs) == 1
            if storage in self._written and not lone:
                unsupported("mutation-of-input", value="memory that a nested tensor shares with another input")

    def sharing(self, inputs: list[GraphInput] | None = None) -> Sharing:
        """How all inputs share memory, or those that were not removed from the graph and the tensors inside of them."""
        kept = None if inputs is None else {id(fake) for item in inputs for fake in (item.fake, *tensors_inside(item.fake))}
        groups: dict[int, list[GraphInput]] = {}
        others = []
        for item, storage in self._inputs:
            if kept is not None and id(item.fake) not in kept:
                continue
            if storage in self._written:
                groups.setdefault(storage, []).append(item)
            else:
                others.append(item)
        return Sharing(list(groups.values()), others, self._whole)

    def _check(self) -> None:
        sharing = self.sharing()
        self._check_nested()
        for group in sharing.groups:
            if len(group) > 1 and any(item.real.requires_grad for item in group):
                unsupported("mutation-of-input", value="memory that inputs share of which one requires a gradient")
            if len({item.real.dtype for item in group}) > 1:
                unsupported("mutation-of-input", value="memory that inputs of several dtypes share")
        if not _C.memory_apart(sharing.sizes(), sharing.whole, *(item.real for item in sharing.inputs())):
            unsupported("mutation-of-input", value="memory that inputs share, in a way that backends cannot be told,")


class RealMemory:
    """The real tensors that have fakes, by the bytes that they occupy. Fakes of tensors that overlap share a storage."""

    def __init__(self) -> None:
        self._known: dict[int, list[tuple[int, int, torch.UntypedStorage]]] = {}

    def shared_with(self, tensor: torch.Tensor) -> torch.UntypedStorage | None:
        """The storage of the fake of an earlier tensor that overlaps this one; None if there is none."""
        storage, start, end, *_ = _C.memory_extent(tensor, False)
        for other_start, other_end, fake_storage in self._known.get(storage, ()):
            if start < other_end and other_start < end:
                return fake_storage
        return None

    def add(self, tensor: torch.Tensor, fake_storage: torch.UntypedStorage) -> None:
        storage, start, end, *_ = _C.memory_extent(tensor, False)
        self._known.setdefault(storage, []).append((start, end, fake_storage))
