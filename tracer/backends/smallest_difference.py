"""The smallest part of a graph that a backend compiles wrongly."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from tracer.backends.verify import copies_of
from tracer.graph.graph_module import with_graph

#: What a backend does otherwise than eager with a graph and inputs; "" for nothing.
Differs = Callable[[fx.GraphModule, list[Any]], str]


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a graph, with inputs of its own."""

    gm: fx.GraphModule
    inputs: list[Any]
    #: Its last operation, as a node of the whole graph.
    last: fx.Node
    difference: str


def smallest_difference(gm: fx.GraphModule, inputs: Sequence[Any], differs: Differs) -> Part | None:
    """The part that begins as late and ends as early as one that differs can. None where the whole graph does not differ.

    Both ends are searched by halves, so that a graph of n operations is compiled some 2 log2(n) times. A graph that is cut
    returns all values that the rest of it takes, so that a part that ends later differs, too, unless a later operation hides it.
    """
    nodes = [node for node in gm.graph.nodes if node.op.startswith("call_")]

    def part(start: int, stop: int, results: Sequence[fx.Node]) -> Part | None:
        own, values = _window(gm, inputs, nodes[start:stop], results)
        try:
            found = differs(own, values)
        except Exception as error:  # this part fails where the whole graph ran
            found = f"{type(error).__name__}: {error}"
        return Part(own, values, nodes[stop - 1], found) if found else None

    best = part(0, len(nodes), _taken_after(nodes, len(nodes))) if nodes else None
    if best is None:
        return None
    least, most = 0, len(nodes)
    while most - least > 1:
        middle = (least + most) // 2
        found = part(0, middle, _taken_after(nodes, middle))
        least, most, best = (least, middle, found) if found else (middle, most, best)
    stop, start, end = most, 0, most
    results = _taken_after(nodes, stop)
    while end - start > 1:
        middle = (start + end) // 2
        found = part(middle, stop, results)
        start, end, best = (middle, end, found) if found else (start, middle, best)
    return part(start, stop, nodes[stop - 1 : stop]) or best


def _taken_after(nodes: list[fx.Node], stop: int) -> list[fx.Node]:
    """Of the values of the operations before `stop`, those that others take behind it."""
    before = set(nodes[:stop])
    return [node for node in nodes[:stop] if any(user not in before for user in node.users)]


def _window(
    gm: fx.GraphModule, inputs: Sequence[Any], nodes: list[fx.Node], results: Sequence[fx.Node]
) -> tuple[fx.GraphModule, list[Any]]:
    """The operations as a graph of their own. What they take from before is an input of it."""
    inside = set(nodes)
    taken = dict.fromkeys(each for node in nodes for each in node.all_input_nodes if each not in inside)
    values = _values_before(gm, inputs, nodes[0])
    own = fx.Graph()
    graphs = [node for node in taken if isinstance(values[node], fx.GraphModule)]  # of operators that take a graph
    copies = {node: own.placeholder(node.name) for node in taken if node not in graphs}
    given = [values[node] for node in copies]
    for node in graphs + nodes:
        copies[node] = own.node_copy(node, copies.__getitem__)
    own.output(tuple(copies[node] for node in results if node in inside))
    return with_graph(gm, own), given


def _values_before(gm: fx.GraphModule, inputs: Sequence[Any], end: fx.Node) -> dict[fx.Node, Any]:
    """The values of all nodes before one, as they are when it is reached."""
    interpreter = fx.Interpreter(gm, garbage_collect_values=False)
    interpreter.args_iter = iter(copies_of(inputs))
    before = True
    for node in gm.graph.nodes:
        before = before and node is not end
        if before or node.op == "get_attr":
            interpreter.env[node] = interpreter.run_node(node)
    return {node: _detached(value) for node, value in interpreter.env.items()}


def _detached(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().clone().requires_grad_(value.requires_grad)
