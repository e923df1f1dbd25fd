"""Numbers and tensors that hang off tensors: sizes, strides, storage offset, gradient; and the
tensor that lies in an array's memory."""

from __future__ import annotations

from typing import Any

from tracer.sources.base import FrameValues, ReadScope, RootSource, Source, SourceCodegen, source_kind
from tracer.sources.reading import (
    tensor_grad,
    tensor_of_array,
    tensor_of_drawn,
    tensor_size,
    tensor_storage_offset,
    tensor_stride,
)


@source_kind
class TensorSizeSource(Source):
    """`base.size()[dim]`."""

    base: Source
    dim: int

    def label(self) -> str:
        return f"{self.base.name}.size()[{self.dim}]"

    def read(self, scope: ReadScope) -> str:
        tensor = scope.read(self.base)
        plain = scope.plain_tensor(self.base)
        return f"{tensor}.size({self.dim})" if plain else f"___tensor_size({tensor}, {self.dim})"

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_callable(tensor_size)
        cg.source(self.base)
        cg.load_const(self.dim)
        cg.call(2)

    def get(self, values: FrameValues) -> Any:
        return tensor_size(self.base.get(values), self.dim)


@source_kind
class DrawnTensorSource(RootSource):
    """A random number, as a tensor without dims, or an array of them, in its memory, that the output code draws before the
    graph runs; or a parameter that it makes. Nothing can be guarded on it."""

    number: int

    def label(self) -> str:
        return f"drawn[{self.number}]"

    def read(self, scope: ReadScope) -> str:
        raise AssertionError("a guard on a random number")

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_callable(tensor_of_drawn)
        cg.load_drawn(self.number)
        cg.call(1)

    def get(self, values: FrameValues) -> Any:
        raise AssertionError("a random number is read before it is drawn")


@source_kind
class TensorStrideSource(Source):
    """`base.stride()[dim]`."""

    base: Source
    dim: int

    def label(self) -> str:
        return f"{self.base.name}.stride()[{self.dim}]"

    def read(self, scope: ReadScope) -> str:
        tensor = scope.read(self.base)
        plain = scope.plain_tensor(self.base)
        return f"{tensor}.stride({self.dim})" if plain else f"___tensor_stride({tensor}, {self.dim})"

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_callable(tensor_stride)
        cg.source(self.base)
        cg.load_const(self.dim)
        cg.call(2)

    def get(self, values: FrameValues) -> Any:
        return tensor_stride(self.base.get(values), self.dim)


@source_kind
class StorageOffsetSource(Source):
    """`base.storage_offset()`."""

    base: Source

    def label(self) -> str:
        return f"{self.base.name}.storage_offset()"

    def read(self, scope: ReadScope) -> str:
        tensor = scope.read(self.base)
        return f"{tensor}.storage_offset()" if scope.plain_tensor(self.base) else f"___storage_offset({tensor})"

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_callable(tensor_storage_offset)
        cg.source(self.base)
        cg.call(1)

    def get(self, values: FrameValues) -> Any:
        return tensor_storage_offset(self.base.get(values))


@source_kind
class GradSource(Source):
    """`base.grad`."""

    base: Source

    def label(self) -> str:
        return f"{self.base.name}.grad"

    def read(self, scope: ReadScope) -> str:
        return f"___tensor_grad({scope.read(self.base)})"

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_callable(tensor_grad)
        cg.source(self.base)
        cg.call(1)

    def get(self, values: FrameValues) -> Any:
        return tensor_grad(self.base.get(values))


@source_kind
class ArrayTensorSource(Source):
    """`torch.from_numpy(base)`"""

    base: Source

    def label(self) -> str:
        return f"torch.from_numpy({self.base.name})"

    def read(self, scope: ReadScope) -> str:
        return f"___tensor_of_array({scope.read(self.base)})"

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_callable(tensor_of_array)
        cg.source(self.base)
        cg.call(1)

    def get(self, values: FrameValues) -> Any:
        return tensor_of_array(self.base.get(values))
