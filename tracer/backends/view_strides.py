"""Views for which AOTAutograd assumes other strides than the tensors really have.

The trace knows the real strides of `2**x`. AOTAutograd uses torch's meta function for `pow`, gets other ones, and rejects a
`view` that is valid. If nothing can observe the difference, `reshape` takes the place of the view.

A view of an input that is not contiguous and is written to is not rejected: its strides are computed as if the input were
contiguous. A graph that returns such a view is not compiled (`refuse_written_views`). For the same reason, what `flatten` or
`reshape` has to copy of such an input is taken for a view of it, and what is computed from a tensor that is an operator's `out=`,
or was changed in place, gets the strides that the operator gives to a new result; such copies are written out
(`prepare_written_views`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from tracer.graph.fakes.fake_tensors import mode_of, storage_of
from tracer.graph.output_graph import EXAMPLE
from tracer.operators.facts import name_of, offset_argument
from tracer.operators.probed_strides import is_contiguous_now

_REFUSALS = ("Cannot view a tensor", "view size is not compatible")
_MAY_COPY = frozenset({"flatten", "reshape", "ravel", "reshape_as", "contiguous", torch.flatten, torch.reshape, torch.ravel})
_MARK = "written_views"  # in `meta` of the output node: whether a result is such a view of a written input


class WrongStrides(Exception):
    """The compiled graph would have results with other strides than the program's."""


def is_about_views(error: Exception) -> bool:
    """Whether a compiler failed because a `view` is not valid for the strides that it assumes."""
    return isinstance(error, (RuntimeError, ValueError)) and any(words in str(error) for words in _REFUSALS)


def prepare_written_views(graph: fx.Graph) -> None:
    """Writes out copies, and notes whether a result is a view, with symbolic sizes, of an input that is written to and not
    contiguous. Called while the graph still has the fakes of the trace, which know what is written to; `refuse_written_views` is
    called inside the backend."""
    written = _written_and_strided(graph)
    restores = not any(map(changes_metadata, graph.nodes))  # the fakes are as they are behind the graph
    for node in list(graph.nodes):
        if written:
            _refuse_to_read_by_place(node, written)
            _copy_before_reshaping(graph, node, written)
        _copy_into_out(graph, node)
        if restores:
            _copy_back(graph, node)
    returned: Any = graph.output_node().args[0]
    results = [node for node in pytree.tree_leaves(returned) if isinstance(node, fx.Node) and node.op != "placeholder"]
    found = any(storage_of(tensor) in written and _is_symbolic(tensor) for node in results for tensor in tensors_of(node))
    graph.output_node().meta[_MARK] = found


def _refuse_to_read_by_place(node: fx.Node, written: set[int]) -> None:
    """Refuses an operation that reads such memory by places: of what is written there, AOTAutograd has a contiguous tensor."""
    counts = node.op.startswith("call_") and node.args and offset_argument(node.target) is not None
    if counts and any(storage_of(tensor) in written for tensor in tensors_of(node.args[0])):
        raise WrongStrides(f"{node.name} reads an argument that is not contiguous and is written to")


def _copy_before_reshaping(graph: fx.Graph, node: fx.Node, written: set[int]) -> None:
    """Has an operation that copies such memory, and gives a view of a contiguous tensor, give one of a contiguous copy."""
    if node.target not in _MAY_COPY or not node.args or (node.target == "contiguous" and (node.args[1:] or node.kwargs)):
        return
    operand, made = [*tensors_of(node.args[0])], [*tensors_of(node)]
    if not operand or not made or storage_of(operand[0]) not in written or storage_of(operand[0]) == storage_of(made[0]):
        return
    node.args = (_contiguous_copy(graph, node, node.args[0], operand[0]), *node.args[1:])


def _copy_into_out(graph: fx.Graph, node: fx.Node) -> None:
    """Has an operator whose `out=` is not contiguous fill a contiguous tensor, which is then copied there."""
    out = node.kwargs.get("out")
    target = next(tensors_of(out), None)
    if not isinstance(out, fx.Node) or target is None or is_contiguous_now(target):
        return
    contiguous = {"memory_format": torch.contiguous_format}
    with mode_of(target), torch.no_grad():
        filled = torch.empty_like(target, **contiguous)
    with graph.inserting_before(node):
        empty = graph.call_function(torch.empty_like, (out,), contiguous)
    _copy_into(graph, node, out, target)
    node.kwargs = {**node.kwargs, "out": empty}
    empty.meta[EXAMPLE] = node.meta[EXAMPLE] = filled


def _copy_back(graph: fx.Graph, node: fx.Node) -> None:
    """Has an operation in place, on a tensor that is not contiguous, change a contiguous copy, which is then copied back.
    AOTAutograd computes it out of place, and takes the strides of that result for those of the tensor."""
    operand = node.args[0] if node.op == "call_method" and node.args else None
    target = next(tensors_of(operand), None)
    if not isinstance(operand, fx.Node) or target is None or is_contiguous_now(target):
        return
    if not _has_other_strides_out_of_place(node, target):
        return
    copy = _contiguous_copy(graph, node, operand, target)
    _copy_into(graph, node, operand, target)
    node.args = tuple([copy if each is operand else each for each in node.args])
    node.meta[EXAMPLE] = copy.meta[EXAMPLE]


def _contiguous_copy(graph: fx.Graph, before: fx.Node, operand: Any, tensor: torch.Tensor) -> fx.Node:
    """A copy of an operand, whose fake is `tensor`, that is made before a node."""
    contiguous = {"memory_format": torch.contiguous_format}
    with graph.inserting_before(before), mode_of(tensor), torch.no_grad():
        copy = graph.call_method("clone", (operand,), contiguous)
        copy.meta[EXAMPLE] = tensor.clone(**contiguous).requires_grad_(tensor.requires_grad)
    return copy


def _copy_into(graph: fx.Graph, node: fx.Node, target: fx.Node, tensor: torch.Tensor) -> None:
    """Copies the result of a node into a target, whose fake is `tensor`, and has that take the place of the result."""
    with graph.inserting_after(node):
        copied = graph.call_method("copy_", (target, node))
    copied.meta = {**node.meta, EXAMPLE: tensor}
    node.replace_all_uses_with(copied, delete_user_cb=lambda user: user is not copied)


def _has_other_strides_out_of_place(node: fx.Node, target: torch.Tensor) -> bool:
    """Whether `y.masked_fill(...)` lies otherwise than `y`, where a node is `y.masked_fill_(...)`."""
    name = str(node.target)
    if not name.endswith("_") or name.startswith("_") or not callable(getattr(torch.Tensor, name[:-1], None)):
        return False  # `requires_grad_` has no form that is out of place
    args, kwargs = fx.map_arg((node.args[1:], node.kwargs), lambda each: each.meta[EXAMPLE])
    with mode_of(target), torch.no_grad():
        made = getattr(target, name[:-1])(*args, **kwargs)
    return isinstance(made, torch.Tensor) and made.stride() != target.stride()


def changes_metadata(node: fx.Node) -> bool:
    """Whether a node may change the sizes or strides of its argument in place (`t_`, `resize_`)."""
    name = name_of(node.target)
    packet = getattr(torch.ops.aten, name, None) if name.endswith("_") and not name.startswith("_") else None
    return packet is not None and any(torch.Tag.inplace_view in getattr(packet, each).tags for each in packet.overloads())


def writes_to_strided_input(graph: fx.Graph) -> bool:
    """Whether a graph, which has the fakes of the trace, writes to an input that is not contiguous."""
    return bool(_written_and_strided(graph))


def refuse_written_views(graph: fx.Graph) -> None:
    """Raises WrongStrides for a graph with such a view. AOTAutograd would compute its strides as if the input were contiguous."""
    if graph.output_node().meta.get(_MARK):
        raise WrongStrides("a result is a view of an argument that is not contiguous and is written to")


def refuse_strided_draws(graph: fx.Graph) -> None:
    """Raises WrongStrides for a graph that draws random numbers into memory that is not contiguous (`x[::2].normal_()`).
    Compilers draw them into new memory, for which PyTorch's kernels take the numbers in another order."""
    for node in graph.nodes:
        for tensor in tensors_of(node):
            if getattr(getattr(tensor, "fake_mode", None), "draws_into_strided", False):
                raise WrongStrides("random numbers are drawn into a tensor that is not contiguous")


def _written_and_strided(graph: fx.Graph) -> set[int]:
    """The memory of its inputs that are not contiguous and are written to."""
    inputs = [node.meta.get(EXAMPLE) for node in graph.nodes if node.op == "placeholder"]
    return {storage_of(each) for each in inputs if isinstance(each, FakeTensor) and _is_written_and_strided(each)}


def _is_written_and_strided(tensor: FakeTensor) -> bool:
    mode: Any = tensor.fake_mode
    if tensor.layout != torch.strided or storage_of(tensor) not in mode.written_storages:
        return False
    return not is_contiguous_now(tensor)


def _is_symbolic(tensor: torch.Tensor) -> bool:
    return any(type(number) is not int for number in (*tensor.shape, *tensor.stride()))


def views_may_be_copies(graph: fx.Graph) -> bool:
    """Whether nothing can observe that tensors of a graph share memory: nothing is written, and no two results share any."""
    # The version of a fake is counted up by each write to its memory.
    written = any(tensor._version for node in graph.nodes for tensor in tensors_of(node))
    returned: Any = graph.output_node().args[0]
    memory = [storage_of(tensor) for node in pytree.tree_leaves(returned) for tensor in tensors_of(node)]
    return not written and len(set(memory)) == len(memory)


def reshape_for_view(graph: fx.Graph) -> None:
    """Replaces `view` in a graph by `reshape`, which copies if it has to."""
    for node in graph.nodes:
        if node.op == "call_method" and node.target == "view" and not any(isinstance(arg, torch.dtype) for arg in node.args):
            node.target = "reshape"


def tensors_of(node: Any) -> Iterator[torch.Tensor]:
    """The strided tensors in the example value of a node; none if `node` is a constant."""
    return (tensor for tensor in all_tensors_of(node) if tensor.layout == torch.strided)


def all_tensors_of(node: Any) -> Iterator[torch.Tensor]:
    """The tensors in the example value of a node, sparse and nested ones too."""
    example = node.meta.get(EXAMPLE) if isinstance(node, fx.Node) else None
    return (value for value in pytree.tree_leaves(example) if isinstance(value, torch.Tensor))
