"""Guards on the memory that inputs lie in, of graphs that write to it."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from tracer import _C
from tracer.guards.base import CheckScope, Guard, Mismatch, guard_kind
from tracer.sources.base import Source


@guard_kind
class MemoryApart(Guard):
    """Each tensor that is written to overlaps only tensors of its group. `sizes` are the sizes of the groups; their tensors come
    first, the other tensors after them. With `whole`, storages are compared."""

    group: tuple[Source, ...]
    sizes: tuple[int, ...]
    whole: bool
    kind: ClassVar[str] = "NO_OVERLAP"

    def check(self, code: CheckScope) -> str | None:
        values = ", ".join(code.read(source) for source in self.group)
        return f"___memory_apart({self.sizes}, {self.whole}, {values})"

    def lines(self) -> list[str]:
        names = [source.name for source in self.group]
        written = []
        for size in self.sizes:
            written.append(f"({', '.join(names[:size])})" if size > 1 else names[0])
            del names[:size]
        return [f"no overlap of {', '.join(written)}" + (f" with {', '.join(names)}" if names else "")]

    def explain(self, *seen: Any) -> Mismatch:
        return Mismatch(f"memory is shared: {self.lines()[0]}", "memory of their own", "shared memory")

    def log_name(self) -> str:
        return f"{len(self.group)} inputs {self.kind}"


@guard_kind
class MemoryShared(Guard):
    """Tensors lie in one storage, each at the place where it was in the trace."""

    group: tuple[Source, ...]
    offsets: tuple[int, ...]
    nbytes: int
    kind: ClassVar[str] = "OVERLAP"

    @classmethod
    def of(cls, group: tuple[Source, ...], tensors: tuple[Any, ...]) -> MemoryShared:
        extents = [_C.memory_extent(tensor, True) for tensor in tensors]
        return cls(group, tuple([extent[3] for extent in extents]), extents[0][4])

    def check(self, code: CheckScope) -> str | None:
        values = ", ".join(code.read(source) for source in self.group)
        return f"___memory_shared({self.offsets}, {self.nbytes}, {values})"

    def lines(self) -> list[str]:
        names = ", ".join(source.name for source in self.group)
        return [f"one storage of {self.nbytes} bytes holds {names} at {', '.join(map(str, self.offsets))}"]

    def explain(self, *seen: Any) -> Mismatch:
        return Mismatch(f"memory is shared differently: {self.lines()[0]}", "memory shared as before", "another place")

    def log_name(self) -> str:
        return f"{len(self.group)} inputs {self.kind}"


def fills_storage(tensor: torch.Tensor) -> bool:
    """Whether a contiguous tensor is all that its storage holds."""
    return bool(tensor.untyped_storage().nbytes() == tensor.numel() * tensor.itemsize)


@guard_kind
class FillsStorage(Guard):
    """A contiguous tensor is all that its storage holds."""

    source: Source
    kind: ClassVar[str] = "STORAGE"

    def check(self, code: CheckScope) -> str | None:
        return f"{code.const(fills_storage, 'fills_storage')}({code.read(self.source)})"

    def lines(self) -> list[str]:
        return [f"{self.source.name} is all that its storage holds"]

    def explain(self, *seen: Any) -> Mismatch:
        return Mismatch(f"tensor '{self.source.name}' is part of a storage that holds more", "its own storage", "part of one")
