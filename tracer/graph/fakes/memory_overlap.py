"""Writes that PyTorch refuses because of how their operands lie in memory.

Kernels that write element by element ask, before they run, whether an element is written twice, or read after it may have been
written (aten/src/ATen/MemoryOverlap.cpp). Kernels for fakes do not ask, and a compiler turns the write into a computation that
always has a result. So that a traced program raises what it raises in eager mode, the question is asked in the trace.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from tracer.operators.layout import hint, hints
from tracer.operators.table import ANYWHERE

_TWICE = "more than one element of the written-to tensor refers to a single memory location"
_READ = "some elements of the input tensor and the written-to tensor refer to a single memory location"

Layout = tuple[tuple[int, ...], tuple[int, ...], int]  # sizes, strides and storage offset


def check_overlap(written: torch.Tensor, operands: Iterable[Any], refused: str) -> None:
    """RuntimeError where the kernel of an operator refuses to write to this tensor.

    written: a fake; its sizes, strides and offset count as they are in the traced call.
    operands: all arguments; those that are no tensors in the same memory are passed over.
    refused: which overlaps with them, PARTLY or ANYWHERE.

    Example: with `x` of size (4,), `x[1:].add_(x[:-1])` and `x.expand(2, 4).add_(1)` are refused, `x.add_(x)` is not.
    """
    layout = _layout(written)
    if layout is None or 0 in layout[0]:
        return
    if _is_repeated(layout):
        raise RuntimeError(f"unsupported operation: {_TWICE}. Please clone() the tensor before performing the operation.")
    memory, others = written.untyped_storage()._cdata, [each for each in operands if isinstance(each, torch.Tensor)]
    del others[next(i for i, each in enumerate(others) if each is written)]  # it may be read, too, as another argument
    for each in others:
        in_it = each.layout is torch.strided and each.untyped_storage()._cdata == memory
        if in_it and _overlap(written, layout, each, refused):
            raise RuntimeError(f"unsupported operation: {_READ}. Please clone() the tensor before performing the operation.")


def lies_over_itself(tensor: torch.Tensor) -> bool:
    """Whether a fake, as an expanded tensor, has an element that stands at several places."""
    layout = _layout(tensor)
    return layout is not None and 0 not in layout[0] and _is_repeated(layout)


def lie_over_one_another(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether two of several fakes may have an element in common: the stretches of memory in which they lie overlap."""
    stretches: dict[int, list[tuple[int, int]]] = {}
    for tensor in tensors:
        layout = _layout(tensor)
        if layout is not None and 0 not in layout[0]:
            length = sum((size - 1) * stride for size, stride in zip(*layout[:2])) + 1
            begin, end = layout[2] * tensor.itemsize, (layout[2] + length) * tensor.itemsize
            stretches.setdefault(tensor.untyped_storage()._cdata, []).append((begin, end))
    return any(end > begin for each in stretches.values() for (_, end), (begin, _) in itertools.pairwise(sorted(each)))


def keeps_elements_apart(tensor: torch.Tensor) -> bool:
    """Whether each element of a tensor, fake or real, has a place of its own, as far as sizes and strides tell. Decided on
    symbols, it is a guard. False where it is not known: for dims that pass through one another, and sizes that depend on data."""
    layout = _layout(tensor)
    if layout is None:
        return tensor.layout is not torch.strided
    reach: Any = 0
    for dim in sorted(range(tensor.dim()), key=layout[1].__getitem__):
        size, stride = tensor.shape[dim], tensor.stride(dim)
        if size != 1 and not reach < stride:
            return False
        reach += (size - 1) * stride
    return True


def _is_repeated(layout: Layout) -> bool:
    return any(size > 1 and stride == 0 for size, stride in zip(*layout[:2]))


def _layout(tensor: torch.Tensor) -> Layout | None:
    """None where it depends on data, or the tensor is sparse."""
    if tensor.layout is not torch.strided:
        return None
    sizes, strides, offset = hints(tensor.shape), hints(tensor.stride()), hint(tensor.storage_offset())
    return None if None in (*sizes, *strides, offset) else (sizes, strides, offset)


def _overlap(written: torch.Tensor, layout: Layout, read: torch.Tensor, refused: str) -> bool:
    """Whether two tensors in the same memory share elements: also all of them, if ANYWHERE is refused. Of tensors with gaps it is
    taken that they share none, as PyTorch does."""
    other = _layout(read)
    if other is None or 0 in other[0] or not (_is_dense(layout) and _is_dense(other)):
        return False
    (begin, end), (other_begin, other_end) = _span(layout, written), _span(other, read)
    if (begin, end) == (other_begin, other_end):
        return refused == ANYWHERE or layout[1] != other[1]
    return begin < other_end and other_begin < end


def _span(layout: Layout, tensor: torch.Tensor) -> tuple[int, int]:
    """The bytes that a dense tensor takes: the first, and the one behind the last."""
    return layout[2] * tensor.itemsize, (layout[2] + math.prod(layout[0])) * tensor.itemsize


def _is_dense(layout: Layout) -> bool:
    """Whether the elements fill a stretch of memory, each once, in any order of the dims."""
    expected = 1
    for stride, size in sorted((stride, size) for size, stride in zip(*layout[:2]) if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True
