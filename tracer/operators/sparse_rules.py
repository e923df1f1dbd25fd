"""Products of a sparse matrix and a dense one: dense results without gaps, whatever the layout of the sparse one. Torch has no
meta functions for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from tracer.operators.meta import meta

aten = torch.ops.aten
_LAYOUTS = frozenset((torch.sparse_coo, torch.sparse_csr, torch.sparse_csc))


def is_sparse(value: Any) -> bool:
    """Whether a value is a sparse tensor of one of the layouts without blocks."""
    return isinstance(value, torch.Tensor) and value.layout in _LAYOUTS


def sparse_fake(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    """A fake with the metadata of a sparse matrix, and no elements. `from_tensor` fails for a view of another one."""
    with mode, torch.enable_grad(), torch.inference_mode(False):
        sizes = [int(size) for size in tensor.shape]
        fake = torch.empty(sizes, dtype=tensor.dtype, layout=tensor.layout, device=tensor.device)
        return fake.requires_grad_(tensor.requires_grad)


def static_fake(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    """A fake without symbols of a tensor that is sparse, or of another kind that torch makes fakes of."""
    return sparse_fake(mode, tensor) if is_sparse(tensor) else mode.from_tensor(tensor, static_shapes=True)


@meta(aten.mm.default, aten.mv.default)
def _product(func: Any, matrix: torch.Tensor, other: torch.Tensor) -> Any:
    if not is_sparse(matrix) or is_sparse(other):
        return NotImplemented
    if matrix.dtype != other.dtype or matrix.device != other.device or matrix.shape[1] != other.shape[0]:
        raise ValueError(f"the product of {matrix.dtype} and {other.dtype}, or of sizes that do not fit")
    return other.new_empty((matrix.shape[0], *other.shape[1:]))


@meta(aten._sparse_addmm.default, aten.addmm.default)
def _sum_with_product(func: Any, added: torch.Tensor, matrix: torch.Tensor, other: torch.Tensor, **factors: Any) -> Any:
    if not is_sparse(matrix) or is_sparse(other) or is_sparse(added):
        return NotImplemented
    return _product(func, matrix, other)


def sparse_in(values: Any) -> Iterator[torch.Tensor]:
    """The sparse tensors among arguments."""
    if is_sparse(values):
        yield values
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from sparse_in(value)
    elif isinstance(values, dict):
        yield from sparse_in(list(values.values()))
