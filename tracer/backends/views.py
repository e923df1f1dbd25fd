"""Views that a compiler cannot make, because torch's rules tell it another layout of a tensor than the tensor has.

The trace knows how `2**x` lies in memory; AOTAutograd asks torch's rule for `pow`, which says something else, and refuses a
`view` that the program makes rightly. Only where nobody can see it, a copy does as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from tracer.graph.output_graph import EXAMPLE
from tracer.operators.asked_strides import is_in_line

_REFUSALS = ("Cannot view a tensor", "view size is not compatible")
_MARK = "written_views"


class LaidOutWrong(Exception):
    """What a compiler would make of a graph has results that lie otherwise than the program's."""


def is_about_views(error: Exception) -> bool:
    """Whether a compiler failed because a tensor, as it believes that it lies, cannot be seen in another shape."""
    return isinstance(error, (RuntimeError, ValueError)) and any(words in str(error) for words in _REFUSALS)


def mark_written_views(graph: fx.Graph) -> None:
    """Notes whether a result is a view, of sizes not yet known, of an argument that is not contiguous and is written to."""
    inputs = [node.meta.get(EXAMPLE) for node in graph.nodes if node.op == "placeholder"]
    written = {_number_of(each) for each in inputs if isinstance(each, FakeTensor) and _is_written_out_of_line(each)}
    returned: Any = graph.output_node().args[0]
    results = [node for node in pytree.tree_leaves(returned) if isinstance(node, fx.Node) and node.op != "placeholder"]
    found = any(_number_of(tensor) in written and _is_symbolic(tensor) for node in results for tensor in _tensors(node))
    graph.output_node().meta[_MARK] = found


def refuse_written_views(graph: fx.Graph) -> None:
    """AOTAutograd makes such a view with the strides that it would have of a contiguous argument. Raises LaidOutWrong."""
    if graph.output_node().meta.get(_MARK):
        raise LaidOutWrong("a result is a view of an argument that is not contiguous and is written to")


def _is_written_out_of_line(tensor: FakeTensor) -> bool:
    mode: Any = tensor.fake_mode
    if tensor.layout != torch.strided or _number_of(tensor) not in mode.written_storages:
        return False
    return not is_in_line(tensor)


def _is_symbolic(tensor: torch.Tensor) -> bool:
    return any(type(number) is not int for number in (*tensor.shape, *tensor.stride()))


def _number_of(tensor: torch.Tensor) -> int:
    number: int = tensor.untyped_storage()._cdata
    return number


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
