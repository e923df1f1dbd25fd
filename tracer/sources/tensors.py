"""Numbers and tensors that are read from tensors: sizes, strides, storage offset, gradient; the tensor that lies in an array's
memory, and the number in a scalar of NumPy."""

from __future__ import annotations

from typing import Any

from tracer._C import WORD
from tracer.sources import steps
from tracer.sources.base import FrameValues, ReadScope, RootSource, Source, SourceCodegen, source_kind
from tracer.sources.reading import tensor_of_drawn


@source_kind
class TensorSizeSource(Source):
    """`base.size()[dim]`."""

    base: Source
    dim: int
    way = (steps.SIZE,)
    named = "{self.base}.size()[{self.dim}]"
    word = WORD.SIZE


@source_kind
class TensorStrideSource(Source):
    """`base.stride()[dim]`."""

    base: Source
    dim: int
    way = (steps.STRIDE,)
    named = "{self.base}.stride()[{self.dim}]"
    word = WORD.STRIDE


@source_kind
class StorageOffsetSource(Source):
    """`base.storage_offset()`."""

    base: Source
    way = (steps.STORAGE_OFFSET,)
    named = "{self.base}.storage_offset()"
    word = WORD.OFFSET


@source_kind
class GradSource(Source):
    """`base.grad`."""

    base: Source
    way = (steps.GRAD,)
    named = "{self.base}.grad"


@source_kind
class ArrayTensorSource(Source):
    """`torch.from_numpy(base)`"""

    base: Source
    way = (steps.TENSOR_OF_ARRAY,)
    named = "torch.from_numpy({self.base})"


@source_kind
class ScalarNumberSource(Source):
    """`base.item()` of a scalar of NumPy."""

    base: Source
    way = (steps.NUMBER_OF_SCALAR,)
    named = "{self.base}.item()"
    is_part = True
    is_kept = True


@source_kind
class DrawnTensorSource(RootSource):
    """A tensor that the output code makes before the graph runs: a random number, as a tensor without dims; the memory of an
    array of random numbers; or a parameter. It does not exist when guards are checked, so none can read it."""

    number: int
    named = "drawn[{self.number}]"

    def read(self, scope: ReadScope) -> str:
        raise AssertionError("a guard on a random number")

    def emit(self, cg: SourceCodegen) -> None:
        cg.load_callable(tensor_of_drawn)
        cg.load_drawn(self.number)
        cg.call(1)

    def get(self, values: FrameValues) -> Any:
        raise AssertionError("a random number is read before it is drawn")
