"""How long tensors live that several streams work on.

An allocator gives freed memory at once to the next one who asks on the stream that it was allocated on. Another stream may not
have read it yet. In the program a variable keeps such a tensor until its function returns. A graph drops what it needs no more:
one that makes other streams the current ones keeps what passes between them until its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from tracer.graph.fakes.fake_tensors import storage_of
from tracer.graph.operations.streams import entered, left, used_until_here
from tracer.graph.output_graph import EXAMPLE, OutputGraph

if TYPE_CHECKING:
    from torch import fx


def keep_what_streams_share(output: OutputGraph) -> None:
    """Adds the operation that keeps them, if there are any."""
    if not any(node.target is entered for node in output.graph.nodes):
        return
    kept = {storage_of(node.meta[EXAMPLE]): node for node in _shared(output.graph)}
    if kept:
        output.create_node("call_function", used_until_here, tuple(kept.values()), {}, None)


def _shared(graph: fx.Graph) -> Iterator[fx.Node]:
    """Tensors that are used while another stream is the current one than where their memory came from. Inputs stand for their
    memory themselves: whoever calls the graph has them."""
    current: list[fx.Node] = []
    made_in: dict[int, fx.Node | None] = {}
    inputs: dict[int, fx.Node] = {}
    for node in graph.nodes:
        if node.target is entered:
            current.append(node)
        elif node.target is left:
            current.pop()
        here = current[-1] if current else None
        for used in node.all_input_nodes if node.op.startswith("call") else ():
            if _has_memory(used):
                storage = storage_of(used.meta[EXAMPLE])
                if made_in.setdefault(storage, here) is not here:
                    yield inputs.get(storage, used)
        if _has_memory(node):
            storage = storage_of(node.meta[EXAMPLE])
            made_in.setdefault(storage, here)
            if node.op == "placeholder":
                inputs[storage] = node


def _has_memory(node: fx.Node) -> bool:
    example = node.meta.get(EXAMPLE)
    return isinstance(example, torch.Tensor) and example.layout is torch.strided and not example.is_nested
