"""Views that a compiler cannot make, because torch's rules tell it another layout of a tensor than the tensor has.

The trace knows how `2**x` lies in memory; AOTAutograd asks torch's rule for `pow`, which says something else, and refuses a
`view` that the program makes rightly. Only where nobody can see it, a copy does as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from tracer.graph.output_graph import EXAMPLE

_REFUSALS = ("Cannot view a tensor", "view size is not compatible")


def is_about_views(error: Exception) -> bool:
    """Whether a compiler failed because a tensor, as it believes that it lies, cannot be seen in another shape."""
    return isinstance(error, (RuntimeError, ValueError)) and any(words in str(error) for words in _REFUSALS)


def views_may_be_copies(graph: fx.Graph) -> bool:
    """Whether it is seen nowhere that two tensors of a graph share memory: nothing is written, and no two results share any."""
    written = any(tensor._version for node in graph.nodes for tensor in _tensors(node))
    returned: Any = graph.output_node().args[0]
    memory = [tensor.untyped_storage()._cdata for node in pytree.tree_leaves(returned) for tensor in _tensors(node)]
    return not written and len(set(memory)) == len(memory)


def reshape_for_view(graph: fx.Graph) -> None:
    """Rewrites the views of a graph as what copies where it must."""
    for node in graph.nodes:
        if node.op == "call_method" and node.target == "view" and not any(isinstance(arg, torch.dtype) for arg in node.args):
            node.target = "reshape"


def _tensors(node: Any) -> Iterator[torch.Tensor]:
    example = node.meta.get(EXAMPLE) if isinstance(node, fx.Node) else None
    return (value for value in pytree.tree_leaves(example) if isinstance(value, torch.Tensor) and value.layout == torch.strided)
