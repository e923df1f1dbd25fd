"""The class of nested tensors with the jagged layout, called by name. The functions of `torch.nested` are traced through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tracer.graph.fakes.nested_fakes import NestedTensor
from tracer.graph_breaks import unsupported
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_KEYWORDS = {"values", "offsets", "lengths", "requires_grad", "_ragged_idx"}


@models(NestedTensor)
def _nested_tensor(tx: Tracer, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    """One operation of the graph. A dict of remembered lengths would be the program's own, which the graph cannot be given."""
    if not kwargs.keys() <= _KEYWORDS:
        unsupported("tensor-subclass", cls=NestedTensor.__qualname__, source=f"a constructor call with {', '.join(kwargs)}")
    return tx.call_in_graph(NestedTensor, list(args), kwargs)
