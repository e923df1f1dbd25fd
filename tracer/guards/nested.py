"""Guards on nested tensors: which of them share the size of their ragged dim."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch.nested._internal.nested_tensor import NestedTensor, _tensor_symint_registry

from tracer.guards.base import CheckScope, Guard, Mismatch, guard_kind
from tracer.sources.base import Source


def ragged_number(tensor: torch.Tensor) -> int | None:
    """The number by which PyTorch tells the ragged sizes of real tensors apart: of a nested tensor, or of a tensor that is the
    offsets or the lengths of one. None: it is neither."""
    if type(tensor) is NestedTensor:
        own: Any = tensor._size[tensor._ragged_idx]
        number: int = own.node.nested_int()
        return number
    if not _tensor_symint_registry.data:
        return None
    known = _tensor_symint_registry.get(tensor)
    return None if known is None else known.node.nested_int()


def ragged_pattern(*tensors: torch.Tensor) -> tuple[int, ...]:
    """Which of the tensors share a ragged size: for each, the place of the first that has the same one."""
    first: dict[Any, int] = {}
    found = []
    for place, tensor in enumerate(tensors):
        number = ragged_number(tensor)
        found.append(place if number is None else first.setdefault(number, place))
    return tuple(found)


@guard_kind
class RaggedMatch(Guard):
    """Those of the tensors that shared a ragged size share one, and the others do not. Each is a nested tensor, or one that may
    be the offsets or lengths of some."""

    group: tuple[Source, ...]
    pattern: tuple[int, ...]
    kind: ClassVar[str] = "RAGGED_SIZES"

    def check(self, code: CheckScope) -> str | None:
        values = ", ".join(code.read(source) for source in self.group)
        return f"{code.const(ragged_pattern, 'ragged_pattern')}({values}) == {self.pattern}"

    def lines(self) -> list[str]:
        names = ", ".join(source.name for source in self.group)
        return [f"ragged sizes of {names} are equal as in {self.pattern}"]

    def explain(self, *seen: Any) -> Mismatch:
        now = ragged_pattern(*seen)
        return Mismatch(f"other tensors share a ragged size: {self.lines()[0]}", str(self.pattern), str(now))

    def shows_data(self) -> bool:
        return False

    def log_name(self) -> str:
        return f"{len(self.group)} inputs {self.kind}"
