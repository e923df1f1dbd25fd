"""Keeps operations whose results are not used, but which do more than compute them: they draw random numbers, or may raise.

torch's compilers drop what no result of the graph needs. A program that draws a number and does not use it, or indexes out of
range and does not look at the result, would then end in another state than the graph as it is written.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from tracer.backends.result_memory import METADATA, Compiled, unchanged
from tracer.backends.view_strides import tensors_of
from tracer.graph.fakes.exchanged_data import data_for, exchanged
from tracer.graph.fakes.fake_tensors import mode_of, storage_of
from tracer.graph.fakes.wrapper_fakes import WrapperFake
from tracer.graph.output_graph import EXAMPLE, MUST_RUN
from tracer.operators.facts import name_of

_AS_ANOTHER = frozenset({"view_as", "expand_as", "reshape_as", "type_as"})


class DropsOperations(Exception):
    """A compiler would drop operations of a function that the graph calls, to which no result can be added."""


def keep_operations(graph: fx.Graph) -> Callable[[Compiled], Compiled]:
    """Makes a graph return also the results of such operations. The result wraps the compiled graph: it removes them again."""
    output = graph.output_node()
    returned: Any = output.args[0]
    if not isinstance(returned, (list, tuple)):
        return unchanged
    values = [_value(graph, node) for node in _unused(graph)]
    extra = [value for value in values if value is not None]
    if not extra:
        return unchanged
    output.args = ((*returned, *extra),)
    count = len(returned)  # the function that is returned may be saved, and nodes cannot

    def around(compiled: Compiled) -> Compiled:
        return lambda *args: list(compiled(*args))[:count]

    return around


def refuse_to_drop(gm: fx.GraphModule) -> None:
    """Raises if such an operation is in a function that the graph calls, such as a branch of `cond`."""
    for name, function in gm.named_modules():
        if name and isinstance(function, fx.GraphModule):
            for node in _unused(function.graph):
                raise DropsOperations(f"the result of {node.name} in {name} is not used, so compilers drop the operation")


def _unused(graph: fx.Graph) -> list[fx.Node]:
    """The operations that compilers would drop though they have to run. `y[i] = 0` has no result: it is needed where `y` is."""
    marked = [node for node in graph.nodes if MUST_RUN in node.meta]
    if not marked:
        return []
    needed = _needed(graph)
    return [node for node in marked if node not in needed and next(tensors_of(node), None) is not None]


def _needed(graph: fx.Graph) -> set[fx.Node]:
    """What the results of a graph are computed from, and what writes to memory of theirs or of inputs."""
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    returned = [node for node in pytree.tree_leaves(graph.output_node().args[0]) if isinstance(node, fx.Node)]
    found: set[fx.Node] = set()
    storages: set[Any] = set()
    more = [*placeholders, *returned]
    while more:
        while more:
            node = more.pop()
            if node not in found:
                found.add(node)
                storages.update(map(storage_of, tensors_of(node)))
                more += _read_by(node)
        more = [node for node in graph.nodes if node not in found and _lies_in(node, storages)]
    return found


def _read_by(node: fx.Node) -> list[fx.Node]:
    """What the value of a node is computed from. A tensor that was given other data has nothing of its own ones, and of a tensor
    that only says how another one has to lie, compilers read nothing."""
    operands: list[fx.Node] = node.all_input_nodes
    if node.target in (data_for, exchanged) and isinstance(node.args[1], fx.Node):
        return [node.args[1]]
    name = name_of(node.target)
    if name in _AS_ANOTHER:
        return [each for each in operands if each is node.args[0]]
    if name.endswith("_like") or name.startswith("new_"):
        return [each for each in operands if each is not node.args[0]]
    return [] if name in METADATA else operands


def _lies_in(node: fx.Node, storages: set[Any]) -> bool:
    """Whether an operation gives, or sets items of, a tensor in one of these storages."""
    tensors = tensors_of(node.args[0] if node.target is operator.setitem else node)
    return any(storage_of(tensor) in storages for tensor in tensors)


def _value(graph: fx.Graph, node: fx.Node) -> fx.Node | None:
    """A tensor among the results of the operation, without its history; None if there is none. Of a wrapper it is a plain tensor
    inside: AOTAutograd fails on some wrappers that nobody uses. Where its memory is written to it is a copy: of what is
    overwritten afterwards, compilers would return what is written."""
    example = node.meta[EXAMPLE]
    with graph.inserting_after(node):
        if isinstance(example, (list, tuple)):
            place = next((i for i, each in enumerate(example) if isinstance(each, torch.Tensor)), None)
            if place is None:
                return None
            node = graph.call_function(operator.getitem, (node, place))
            node.meta[EXAMPLE] = example = example[place]
        if not isinstance(example, torch.Tensor):
            return None
    while isinstance(example, WrapperFake) and example.held:
        name, part = next(iter(example.held.items()))
        with graph.inserting_after(node):
            node = graph.call_function(getattr, (node, name))
        node.meta[EXAMPLE] = example = part
    with graph.inserting_after(node):
        value = graph.call_method("detach", (node,))
    if isinstance(example, WrapperFake):
        value.meta[EXAMPLE] = example
        return value
    value.meta[EXAMPLE] = example.detach()
    if example.layout == torch.strided and storage_of(example) in getattr(
        getattr(example, "fake_mode", None), "written_storages", ()
    ):
        with graph.inserting_after(value):
            copy = graph.call_method("clone", (value,))
        with mode_of(example):
            copy.meta[EXAMPLE] = example.detach().clone()
        return copy
    return value
