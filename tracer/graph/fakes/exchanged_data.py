"""`tensor.data = other`: the operations of the graph that represent it, and what the output code does to the real tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.functional_tensor import FunctionalTensor

from tracer import _C
from tracer.graph_breaks import unsupported

if TYPE_CHECKING:
    from torch import fx


class _Exchanged(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
        return data.detach()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient, None


def exchanged(tensor: torch.Tensor, data: torch.Tensor) -> torch.Tensor:
    """`tensor` after `tensor.data = data`: the memory of `data`, and the autograd history that `tensor` had."""
    with torch.enable_grad():
        return _Exchanged.apply(tensor, data)


def data_for(tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """`other.data`, as the data that `tensor` will have. The two share a version counter, so that autograd notices writes to
    either. In a compiler's trace (FunctionalTensor) there are no version counters."""
    data = other.data
    if not isinstance(data, FunctionalTensor) and not tensor.is_inference() and not data.is_inference():
        _C.share_version(data, tensor)
    return data


class ResizedLeaves:
    """Leaves that require a gradient and were given data of another size. Autograd would want a gradient of the size that they
    have by then, whatever was recorded before. So a graph holds no operation on one, neither before nor after."""

    def __init__(self) -> None:
        self._steps: dict[fx.Node, int | None] = {}  # the node that stands for one afterwards -> the step

    def note(self, node: fx.Node, step: int | None) -> None:
        self._steps[node] = step

    def remove(self) -> None:
        """Called at the end of a trace. Drops the nodes, or breaks the graph where one was used."""
        for node, step in reversed(self._steps.items()):
            leaf = node.args[0]
            if node.users or any(user.target not in (exchanged, data_for) for user in leaf.users):
                unsupported("mutation-of-input", break_step=step, value="a leaf that is given data of another size")
            node.graph.erase_node(node)


def assign_data(tensor: torch.Tensor, data: torch.Tensor) -> None:
    """`tensor.data = data`, called by output code with a result of the graph. The two share a version counter from then on, so
    that autograd notices writes to what a compiled graph has saved. They do not if their versions differ: what was saved of the
    tensor before would seem to have changed."""
    tensor.data = data
    if not tensor.is_inference() and not data.is_inference() and tensor._version == data._version:
        _C.share_version(tensor, data)


_C.never_trace(assign_data.__code__)


def is_exchanged_leaf(fake: Any) -> bool:
    """Whether a fake stands for a leaf whose data were exchanged. In the graph it is the result of an operation, so no leaf."""
    return getattr(fake, "exchanged_at", None) is not None


def exchanged_at(fake: Any) -> int | None:
    """The step at which the data of such a leaf, or of a leaf that this is a view of, were exchanged; None if they were not."""
    return _step(fake, "exchanged_at")


def input_exchanged_at(fake: Any) -> int | None:
    """As `exchanged_at`, for an input of the frame, leaf or not, that requires a gradient."""
    return _step(fake, "input_exchanged_at")


def _step(fake: Any, name: str) -> int | None:
    step: int | None = getattr(fake, name, None)
    if step is None and fake._is_view():
        step = getattr(fake._base, name, None)
    return step
