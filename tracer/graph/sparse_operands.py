"""Which operations take sparse tensors of the program: those of which it is known what they give, whatever lies in the tensor."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from tracer.graph_breaks import unsupported
from tracer.operators.sparse_rules import sparse_in

if TYPE_CHECKING:
    from tracer.graph.output_graph import OutputGraph

_PRODUCTS: tuple[Any, ...] = (
    torch.mm, torch.mv, torch.matmul, torch.spmm, torch.sparse.mm, operator.matmul, "mm", "mv", "matmul", "__matmul__"
)  # fmt: skip
_SUMS: tuple[Any, ...] = (torch.addmm, torch.sparse.addmm)
#: Where each takes the sparse tensor.
_PLACES: dict[Any, int] = {
    **dict.fromkeys(_PRODUCTS, 0),
    **dict.fromkeys(_SUMS, 1),
    **dict.fromkeys((torch.t, torch.transpose, "t", "transpose", "to_dense", "coalesce", "detach"), 0),
}


def check_sparse(output: OutputGraph, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Breaks the graph for another operation on a sparse input, or on what was made of one."""
    found = list(sparse_in((args, kwargs))) if output.chances.met_sparse else []
    if not found:
        return
    place = _PLACES.get(target) if isinstance(target, str) or callable(target) else None
    if place is None or len(found) > 1 or len(args) <= place or args[place] is not found[0] or found[0].dim() != 2:
        unsupported("unsupported-tensor", value=f"an operand of {getattr(target, '__name__', target)}")
    output.journal.refuse("it takes sparse tensors")
