"""Graph modules as data: their nodes, in order, and what they have as attributes: tensors and graphs in the graph."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import fx

from tracer import user_marks
from tracer.graph.graph_module import module_of
from tracer.graph.same_graph import KINDS
from tracer.saving.fingerprints import Refused, name_with_place

Record = tuple[tuple[tuple[Any, ...], ...], dict[str, Any], dict[str, Any]]


@dataclasses.dataclass
class NodeRef:
    """A reference to a node of the graph, in the arguments of another node."""

    index: int


def record_of(gm: fx.GraphModule, made_by_compiler: bool = False) -> Record:
    """The arguments with which `module_from` makes a module of the same graph. Raises Refused for a graph with parts that are the
    program's. A graph that was `made_by_compiler` may have tensors as constants: the compiler has computed them."""
    numbers: dict[fx.Node, NodeRef] = {}
    nodes = []
    attributes: dict[str, Any] = {}
    for index, node in enumerate(gm.graph.nodes):
        if node.op == "get_attr":
            attributes[node.target] = _attribute(gm, node.target, made_by_compiler)
        elif node.op == "call_module":
            raise Refused(f"the graph calls the module {node.target}, which is an object of the program")
        elif node.op == "call_function" and user_marks.is_allowed(node.target):
            raise Refused(f"{name_with_place(node.target)} is allowed in the graph, and changes of its code cannot be noticed")
        args, kwargs = fx.map_arg((node.args, node.kwargs), numbers.__getitem__)
        nodes.append(
            (node.op, node.name, node.target, _plain_containers(args), _plain_containers(kwargs), node.meta.get("stack_trace"))
        )
        numbers[node] = NodeRef(index)
    meta = {key: gm.meta[key] for key in ("name", KINDS) if key in gm.meta}
    return tuple(nodes), attributes, meta


def module_from(nodes: tuple[tuple[Any, ...], ...], attributes: dict[str, Any], meta: dict[str, Any]) -> fx.GraphModule:
    graph = fx.Graph()
    made: list[fx.Node] = []
    for op, node_name, target, args, kwargs, stack in nodes:
        args, kwargs = fx.node.map_aggregate((args, kwargs), lambda each: made[each.index] if isinstance(each, NodeRef) else each)
        node = graph.create_node(op, target, args, kwargs, node_name)
        if stack is not None:
            node.meta["stack_trace"] = stack
        made.append(node)
    root = torch.nn.Module()
    for name, value in attributes.items():
        if isinstance(value, torch.Tensor):
            root.register_buffer(name, value)
        else:
            setattr(root, name, value)
    gm = module_of(graph, root)
    gm.compile_subgraph_name = meta.get("name", "")
    gm.meta.update(meta)
    return gm


def _attribute(gm: fx.GraphModule, name: str, made_by_compiler: bool) -> Any:
    value = getattr(gm, name, None)
    if isinstance(value, fx.GraphModule) or made_by_compiler and type(value) is torch.Tensor:
        return value
    raise Refused(f"the graph contains {name}, which is a value of the program")


def _plain_containers(value: Any) -> Any:
    """FX's immutable lists and dicts as ordinary ones."""
    if isinstance(value, tuple):
        return tuple(map(_plain_containers, value)) if type(value) is tuple else value
    if isinstance(value, list):
        return list(map(_plain_containers, value))
    return {key: _plain_containers(item) for key, item in value.items()} if isinstance(value, dict) else value
