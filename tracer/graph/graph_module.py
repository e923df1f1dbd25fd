"""Builds the `torch.fx.GraphModule` that a backend is given from the nodes of a trace."""

from __future__ import annotations

import functools
import linecache
import weakref
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import torch
from torch import fx
from torch.fx import graph_module as fx_graph_module

from tracer.graph.keyword_calls import make_printable
from tracer.graph.output_graph import OutputGraph


def build_graph_module(output: OutputGraph, name: str) -> fx.GraphModule:
    root = torch.nn.Module()
    for attribute, value in output.attributes.items():
        setattr(root, attribute, value)
    gm = module_of(output.graph, root)
    gm.compile_subgraph_name = name
    gm.meta["name"] = name
    return gm


def module_of(graph: fx.Graph, attributes: torch.nn.Module | dict[str, Any]) -> fx.GraphModule:
    """A finished graph as a module. The stack trace of a node is the user's line that recorded it."""
    shown = functools.cache(_shown)
    for node in graph.nodes:
        location: Any = node.meta.pop("location", None)
        if location is not None:
            node.meta["stack_trace"] = shown(location)
        node.meta.pop("pure", None)
        if node.op.startswith("call_"):
            node.meta["source_fn_stack"] = [(node.name, node.target)]
            make_printable(node)
    gm = fx.GraphModule(attributes, graph, class_name="GraphModule")
    _release_source_with(type(gm).forward.__code__)
    return gm


def _shown(location: Any) -> str:
    return f'  File "{location.filename}", line {location.lineno}, in {location.function}\n    {location.source_line()}\n'


def copy_of(graph: fx.Graph) -> fx.Graph:
    copy = fx.Graph()
    copy.output(copy.graph_copy(graph, val_map={}))
    return copy


def part_of(
    graph: fx.Graph, nodes: Sequence[fx.Node], same_as: Callable[[fx.Node], fx.Node] = lambda node: node
) -> fx.GraphModule:
    """The part of a graph that computes the given nodes, as a module with all inputs of the graph and no attributes.

    `same_as` may say that another node has the value of a node; it is computed in its place.
    """
    own = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    needed = set(map(same_as, nodes))
    for node in reversed(graph.nodes):
        if node in needed and node.op != "placeholder":
            needed.update(map(same_as, node.all_input_nodes))
    for node in graph.nodes:
        if node.op == "placeholder" or node in needed:
            copies[node] = own.node_copy(node, lambda each: copies[same_as(each)])
    own.output(tuple(copies[same_as(node)] for node in nodes))
    return fx.GraphModule({}, own)


def with_graph(gm: fx.GraphModule, graph: fx.Graph) -> fx.GraphModule:
    """A module of `graph`, which was made from the graph of `gm`, with the attributes and the meta of `gm`."""
    made = fx.GraphModule(gm, graph)
    made.meta.update(gm.meta)
    made.compile_subgraph_name = getattr(gm, "compile_subgraph_name", "")
    _release_source_with(type(made).forward.__code__)
    return made


def _release_source_with(code: CodeType) -> None:
    """Drops the source of a generated forward, which FX keeps for tracebacks, when its code is freed."""
    finalizer = weakref.finalize(code, _release_source, code.co_filename, fx_graph_module._loader.eval_cache)
    finalizer.atexit = False


def _release_source(key: str, sources: dict[str, str]) -> None:
    sources.pop(key, None)
    linecache.cache.pop(key, None)
