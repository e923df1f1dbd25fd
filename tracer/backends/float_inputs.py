"""Floats of the program in a graph that torch compiles: computed by Python, handed over in tensors, or constants.

torch's own symbolic floats are real numbers: to them `0.0 * x` is zero without a sign, `x % y` has no code, and `x ** 2`
of a negative `x` is refused. So what a graph computes from numbers alone, a float input among them, is computed before it
is called. A float comes into a compiled graph as a tensor that `item()` reads, which is the form that AOTAutograd knows.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from tracer.graph.output_graph import EXAMPLE
from tracer.operators.proxies import SYM_TYPES

Compiled = Callable[..., Any]
_NUMBERS = (int, float, *SYM_TYPES)


@dataclasses.dataclass(eq=False)
class FloatInTensor:
    """The example of an input that is a tensor of no dims, holding a float."""

    number: torch.SymFloat


def floats_as_tensors(graph: fx.Graph, examples: list[Any]) -> tuple[list[Any], Callable[[Compiled], Compiled]]:
    """Takes float arithmetic, and float inputs, out of a graph; the examples of its inputs then, and what makes a callable
    of the inputs as they were of the compiled graph."""
    if not any(isinstance(example, torch.SymFloat) for example in examples):
        return examples, lambda compiled: compiled
    derived = _derived(graph)
    hoisted = _read_by_the_rest(graph, derived)
    before = _computing(graph, hoisted)
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    inputs += _replace(graph, hoisted, derived)
    returned = _take_floats_from_results(graph, inputs)
    handed_over = {i: _is_float(node) for i, node in enumerate(inputs) if node.users or not _is_float(node)}
    for i, node in enumerate(inputs):
        if i not in handed_over:  # PyTorch does not take a float that no operation reads
            graph.erase_node(node)
    _read_from_tensors([inputs[i] for i, is_float in handed_over.items() if is_float], graph)

    def around(compiled: Compiled) -> Compiled:
        def run(*args: Any) -> Any:
            values = (*args, *before.forward(*args))
            results = compiled(*(_tensor(values[i]) if is_float else values[i] for i, is_float in handed_over.items()))
            return _with_floats(results, values, returned) if returned else results

        return run

    return [inputs[i].meta[EXAMPLE] for i in handed_over], around


def _take_floats_from_results(graph: fx.Graph, inputs: list[fx.Node]) -> list[tuple[int, int]]:
    """The places among the results where an input stands that is a float, each with the number of the input. Compilers
    are not asked to hand on a number, which is fixed for some of them as soon as it is a result."""
    output = next(node for node in reversed(graph.nodes) if node.op == "output")
    results = output.args[0]
    numbers = {node: i for i, node in enumerate(inputs) if _is_float(node)}
    returned = [(place, numbers[node]) for place, node in enumerate(results) if node in numbers]
    output.args = (tuple(node for node in results if node not in numbers),)
    return returned


def _with_floats(results: Any, values: tuple[Any, ...], returned: list[tuple[int, int]]) -> tuple[Any, ...]:
    whole = list(results)
    for place, i in returned:
        whole.insert(place, values[i])
    return tuple(whole)


def floats_as_constants(graph: fx.Graph, examples: list[Any]) -> tuple[list[Any], Callable[[Compiled], Compiled]]:
    """The same, for a graph that depends on the value of each float: the trace relies on it."""
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    kept = [i for i, node in enumerate(inputs) if not _is_float(node)]
    for node in inputs:
        if _is_float(node):
            number = node.meta[EXAMPLE].node
            node.replace_all_uses_with(number.shape_env.evaluate_sym_node(number))
            graph.erase_node(node)
    return [examples[i] for i in kept], lambda compiled: lambda *args: compiled(*(args[i] for i in kept))


def _is_float(node: fx.Node) -> bool:
    return isinstance(node.meta[EXAMPLE], torch.SymFloat)


def _tensor(number: float) -> torch.Tensor:
    return torch.tensor(number, dtype=torch.float64)


def _read_from_tensors(nodes: list[fx.Node], graph: fx.Graph) -> None:
    first = next(node for node in graph.nodes if node.op != "placeholder")
    for node in nodes:
        number = node.meta[EXAMPLE]
        with graph.inserting_before(first):
            item = graph.call_method("item", (node,))
        item.meta[EXAMPLE] = number
        node.replace_all_uses_with(item, delete_user_cb=lambda user, item=item: user is not item)
        node.meta[EXAMPLE] = FloatInTensor(number)


def _derived(graph: fx.Graph) -> dict[fx.Node, None]:
    """The nodes that compute numbers from numbers that are inputs, a float among them."""
    numbers: dict[fx.Node, bool] = {}  # -> whether a float input is in it
    for node in graph.nodes:
        if not isinstance(node.meta.get(EXAMPLE), _NUMBERS):
            continue
        if node.op == "placeholder":
            numbers[node] = isinstance(node.meta[EXAMPLE], torch.SymFloat)
        elif node.op == "call_function" and all(arg in numbers for arg in node.all_input_nodes):
            numbers[node] = any(numbers[arg] for arg in node.all_input_nodes)
    return {node: None for node, from_float in numbers.items() if from_float and node.op != "placeholder"}


def _read_by_the_rest(graph: fx.Graph, derived: dict[fx.Node, None]) -> list[fx.Node]:
    """The floats and ints among them that are used by what stays: operations on tensors, and decisions."""
    stays = {node for node in graph.nodes if node not in derived}
    hoisted = []
    for node in reversed(derived):
        if any(user in stays for user in node.users):
            number = node.meta[EXAMPLE]
            if isinstance(number, (torch.SymFloat, torch.SymInt)) and math.isfinite(number.node.hint):
                hoisted.append(node)
            else:
                stays.add(node)
    return hoisted[::-1]


def _computing(graph: fx.Graph, nodes: list[fx.Node]) -> fx.GraphModule:
    """The part of a graph that gives the values of nodes, over all its inputs."""
    own = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    needed = set(nodes)
    for node in reversed(graph.nodes):
        if node in needed and node.op != "placeholder":
            needed.update(node.all_input_nodes)
    for node in graph.nodes:
        if node.op == "placeholder" or node in needed:
            copies[node] = own.node_copy(node, copies.__getitem__)
    own.output(tuple(copies[node] for node in nodes))
    return fx.GraphModule({}, own)


def _replace(graph: fx.Graph, hoisted: list[fx.Node], derived: dict[fx.Node, None]) -> list[fx.Node]:
    """Nodes become inputs, which come last."""
    made = []
    last = [node for node in graph.nodes if node.op == "placeholder"][-1]
    for index, node in enumerate(hoisted):
        with graph.inserting_after(last):
            last = graph.placeholder(f"number_{index}")
        last.meta[EXAMPLE] = node.meta[EXAMPLE]
        node.replace_all_uses_with(last)
        made.append(last)
    for node in reversed(derived):
        if not node.users:
            graph.erase_node(node)
    return made
