"""Float inputs of a graph that torch compiles: arithmetic on them is done by Python, and they are passed as tensors, or are
constants.

torch's symbolic floats are real numbers: for them `0.0 * x` is an unsigned zero, `x % y` has no code, and `x ** 2` of a
negative `x` is refused. So the part of a graph that computes numbers from float inputs runs before the graph, in Python. A
float gets into a compiled graph as a tensor that `item()` reads, which is the form that AOTAutograd supports.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch import fx

from tracer.backends.repeated_blocks import AS_WRITTEN, NotInPieces
from tracer.graph.graph_module import part_of
from tracer.graph.output_graph import EXAMPLE
from tracer.graph.symbols import math_functions
from tracer.operators.facts import overload_with_tensor, turns_of
from tracer.operators.proxies import SYM_TYPES

Compiled = Callable[..., Any]
Passed = tuple[list[Any], Callable[[Compiled], Compiled]]  # the examples of new inputs, and a function around what is compiled
_NUMBERS = (int, float, *SYM_TYPES)
_ONLY_OF_PYTHON = (math_functions.exp, math_functions.log)


@dataclasses.dataclass(eq=False)
class FloatInTensor:
    """The example value of a float input that is passed as a scalar tensor. What `item()` reads of it is the number that the
    tracer knows, or one that is known of data alone. `may_be_fixed`: the compiler may take it for a constant."""

    number: torch.SymFloat
    known: bool = True
    may_be_fixed: bool = False


def floats_as_tensors(
    graph: fx.Graph, examples: list[Any], known: bool = True, overloads: bool = True, of_ints: bool = False
) -> tuple[list[Any], Callable[[Compiled], Compiled]]:
    """Moves float arithmetic out of a graph, and passes float inputs as tensors. Returns the examples of the new inputs, and a
    function that wraps the compiled graph into a callable with the old inputs and results. A float that is not `known` is given
    to overloads that take a tensor, if `overloads`. With `of_ints` a float that is computed from ints is an input, too."""
    if not (of_ints or _has_floats(examples) or any(node.target in _ONLY_OF_PYTHON for node in graph.nodes)):
        return examples, lambda compiled: compiled
    computed = _computed_from_floats(graph, of_ints)
    hoisted = _used_outside(graph, computed)
    precompute = part_of(graph, hoisted)
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    inputs += _replace_by_inputs(graph, hoisted, computed)
    returned = _take_floats_from_results(graph, inputs)
    handed_over = {i: _is_float(node) for i, node in enumerate(inputs) if node.users or not _is_float(node)}
    for i, node in enumerate(inputs):
        if i not in handed_over:  # PyTorch does not take a float that no operation reads
            graph.erase_node(node)
    _read_from_tensors([inputs[i] for i, is_float in handed_over.items() if is_float], graph, known, overloads)

    def around(compiled: Compiled) -> Compiled:
        def run(*args: Any) -> Any:
            values = (*args, *precompute.forward(*args))
            results = compiled(
                *(torch.tensor(values[i], dtype=torch.float64) if is_float else values[i] for i, is_float in handed_over.items())
            )
            return _with_floats(results, values, returned) if returned else results

        return run

    return [inputs[i].meta[EXAMPLE] for i in handed_over], around


def _take_floats_from_results(graph: fx.Graph, inputs: list[fx.Node]) -> list[tuple[int, int]]:
    """Removes float inputs from the results of a graph; returns (index of the result, index of the input) of each. Some compilers
    take a number for a constant as soon as it is a result."""
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


def computes_floats(graph: fx.Graph, examples: list[Any]) -> bool:
    """Whether a graph without float inputs computes a float from numbers that are inputs."""
    return not _has_floats(examples) and any(map(_is_float, _computed_from_floats(graph, of_ints=True)))


def _has_floats(examples: list[Any]) -> bool:
    return any(isinstance(example, torch.SymFloat) for example in examples)


def floats_of_ints_as_tensors(graph: fx.Graph, examples: list[Any]) -> tuple[list[Any], Callable[[Compiled], Compiled]]:
    """As `floats_as_tensors`, also for floats that the graph computes from ints. PyTorch's pass that turns arithmetic of floats
    into tensors has no code for some of it (`float(n % 3)`)."""
    return floats_as_tensors(graph, examples, of_ints=True)


def floats_of_ints_as_data(graph: fx.Graph, examples: list[Any]) -> tuple[list[Any], Callable[[Compiled], Compiled]]:
    """As `floats_as_data`, also for floats that the graph computes from ints."""
    return floats_as_tensors(graph, examples, known=False, of_ints=True)


def floats_as_data(graph: fx.Graph, examples: list[Any]) -> tuple[list[Any], Callable[[Compiled], Compiled]]:
    """As `floats_as_tensors`, but compilers take the floats for numbers that are read off data. AOTAutograd turns operations with
    a float that the tracer knows into operations with a tensor, and needs the value where it cannot. A float of data it leaves as
    it is, but then nothing may be decided on it."""
    return floats_as_tensors(graph, examples, known=False)


def floats_apart(graph: fx.Graph, examples: list[Any]) -> tuple[list[Any], Callable[[Compiled], Compiled]]:
    """As `floats_as_data`, but operations that need the value of a float, as their schemas say, are marked: the graph is cut
    around them, and they run as written. Raises NotInPieces if there are none."""
    return _marked(graph, floats_as_tensors(graph, examples, known=False), by_schema=True)


def all_floats_apart(graph: fx.Graph, examples: list[Any]) -> tuple[list[Any], Callable[[Compiled], Compiled]]:
    """As `floats_apart`, but all operations that take a float are marked: a derivative may need the value, too, and an overload
    may take tensors of one dtype only."""
    return _marked(graph, floats_as_tensors(graph, examples, known=False, overloads=False), by_schema=False)


def _marked(graph: fx.Graph, found: Passed, by_schema: bool) -> Passed:
    """Marks what takes a float, and makes each operation read its floats itself, right before it."""
    marked = False
    for item in [node for node in graph.nodes if _is_read_float(node)]:
        for user in list(item.users):
            if not by_schema or _needs_value(user, item):
                user.meta[AS_WRITTEN] = marked = True
            with graph.inserting_before(user):
                user.replace_input_with(item, graph.node_copy(item))
        graph.erase_node(item)
    if not marked:
        raise NotInPieces("no operation takes a float that varies")
    return found


def _is_read_float(node: fx.Node) -> bool:
    return node.target == "item" and isinstance(node.args[0].meta.get(EXAMPLE), FloatInTensor)


def _needs_value(user: fx.Node, item: fx.Node) -> bool:
    args, kwargs = _plain_arguments(user)
    return any(turns_of(user.target, args, kwargs, place) is not None for place in _places_of(user, item))


def _plain_arguments(node: fx.Node) -> Any:
    """Examples of the arguments, by which the overload is known. Of a float that varies, torch would ask the value."""
    return fx.map_arg((node.args, node.kwargs), lambda each: 0.5 if _is_float(each) else each.meta.get(EXAMPLE))


def _places_of(user: fx.Node, item: fx.Node) -> list[Any]:
    places: list[Any] = [*enumerate(user.args), *user.kwargs.items()]
    return [place for place, arg in places if arg is item]


def floats_as_constants(graph: fx.Graph, examples: list[Any]) -> tuple[list[Any], Callable[[Compiled], Compiled]]:
    """As `floats_as_tensors`, but each float becomes a constant of the graph, with a guard on its value."""
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    kept = [i for i, node in enumerate(inputs) if not _is_float(node)]
    for node in inputs:
        if _is_float(node):
            number = node.meta[EXAMPLE].node
            node.replace_all_uses_with(number.shape_env.evaluate_sym_node(number))
            graph.erase_node(node)
    return [examples[i] for i in kept], lambda compiled: lambda *args: compiled(*(args[i] for i in kept))


def floats_fixed(graph: fx.Graph, examples: list[Any]) -> tuple[list[Any], Callable[[Compiled], Compiled]]:
    """As `floats_as_tensors`, where the compiler may take the values of some for constants, which become guards."""
    examples, around = floats_as_tensors(graph, examples)
    for example in examples:
        if isinstance(example, FloatInTensor):
            example.may_be_fixed = True
    return examples, around


class FixedFloat(Exception):
    """A compiler took the value of a float for a constant."""


def needs_values_of_floats(error: Exception) -> bool:
    """Whether a compiler failed because it needs the value of a float that varies. The exception of torch's pass that turns
    arithmetic of floats into tensors is a signal to torch's own tracer."""
    return isinstance(error, FixedFloat) or type(error).__name__ == "TensorifyScalarRestartAnalysis"


def refuse_fixed(conditions: list[Any], floats: set[Any]) -> None:
    """Raises FixedFloat where a condition that a compiler relies on says what one of these symbols is."""
    for condition in conditions:
        if isinstance(condition, sympy.Eq) and not condition.free_symbols.isdisjoint(floats) and condition.rhs.is_number:
            raise FixedFloat(f"the compiler takes {condition.lhs} for the constant {condition.rhs}")


# As floats are given to a compiler, the next where one fails. The last takes a compile for each value.
WAYS: tuple[Callable[..., Any], ...] = (floats_as_tensors, floats_as_data, floats_apart, all_floats_apart, floats_as_constants)
# The same for a graph that has no float input.
WAYS_OF_INTS: tuple[Callable[..., Any], ...] = (floats_of_ints_as_tensors, floats_of_ints_as_data)


def _is_float(node: fx.Node) -> bool:
    return isinstance(node.meta.get(EXAMPLE), torch.SymFloat)


def _read_from_tensors(nodes: list[fx.Node], graph: fx.Graph, known: bool, overloads: bool) -> None:
    first = next(node for node in graph.nodes if node.op != "placeholder")
    for node in nodes:
        number = node.meta[EXAMPLE]
        with graph.inserting_before(first):
            item = graph.call_method("item", (node,))
        item.meta[EXAMPLE] = number
        node.replace_all_uses_with(item, delete_user_cb=lambda user, item=item: user is not item)
        node.meta[EXAMPLE] = FloatInTensor(number, known)
        if not known:
            for user in list(item.users) if overloads else ():
                _take_as_tensor(user, item, node)
            if not item.users:
                graph.erase_node(item)


def _take_as_tensor(user: fx.Node, item: fx.Node, tensor: fx.Node) -> None:
    """Calls the overload of an operator that takes a tensor for a float, if any: what its schema calls a float has a value."""
    args, kwargs = _plain_arguments(user)
    for place in _places_of(user, item):
        overload = overload_with_tensor(user.target, args, kwargs, place)
        if overload is not None:
            user.op, user.target = "call_function", overload
            if isinstance(place, int):
                user.update_arg(place, tensor)
            else:
                user.update_kwarg(place, tensor)


def _computed_from_floats(graph: fx.Graph, of_ints: bool) -> dict[fx.Node, None]:
    """The nodes that compute a number from inputs that are numbers, at least one of them a float; with `of_ints` also those that
    compute a float from ints alone, and what is computed from it. So are those with a function that PyTorch does not know."""
    numbers: dict[fx.Node, bool] = {}  # -> whether a float is in it
    for node in graph.nodes:
        if not isinstance(node.meta.get(EXAMPLE), _NUMBERS):
            continue
        if node.op == "placeholder":
            numbers[node] = isinstance(node.meta[EXAMPLE], torch.SymFloat)
        elif node.op == "call_function" and all(arg in numbers for arg in node.all_input_nodes):
            computed = _is_float(node) and (of_ints or node.target in _ONLY_OF_PYTHON)
            numbers[node] = computed or any(numbers[arg] for arg in node.all_input_nodes)
    return {node: None for node, from_float in numbers.items() if from_float and node.op != "placeholder"}


def _used_outside(graph: fx.Graph, computed: dict[fx.Node, None]) -> list[fx.Node]:
    """The computed numbers that are used by nodes which stay in the graph. Only finite floats and ints can be passed in; nodes
    that compute other kinds of numbers stay in the graph, too."""
    stays = {node for node in graph.nodes if node not in computed}
    hoisted = []
    for node in reversed(computed):
        if any(user in stays for user in node.users):
            number = node.meta[EXAMPLE]
            if isinstance(number, (torch.SymFloat, torch.SymInt)) and math.isfinite(number.node.hint):
                hoisted.append(node)
            else:
                stays.add(node)
    return hoisted[::-1]


def _replace_by_inputs(graph: fx.Graph, hoisted: list[fx.Node], computed: dict[fx.Node, None]) -> list[fx.Node]:
    """Replaces nodes by new inputs after the others, and removes computed nodes that nothing uses any more."""
    made = []
    last = [node for node in graph.nodes if node.op == "placeholder"][-1]
    for index, node in enumerate(hoisted):
        with graph.inserting_after(last):
            last = graph.placeholder(f"number_{index}")
        last.meta[EXAMPLE] = node.meta[EXAMPLE]
        node.replace_all_uses_with(last)
        made.append(last)
    for node in reversed(computed):
        if not node.users:
            graph.erase_node(node)
    return made
