"""Wrappers whose insides the graph writes to are taken apart before it: the compiled graph is given the tensors inside.

AOTAutograd makes a change to an input after the graph. If that is a wrapper, it does so by a `copy_` of wrappers, which the
program does not call: the class may not know it, or do something else. A change to a plain tensor is what it is. It also sees
then which other inputs lie in the same memory.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from tracer.backends.result_memory import Compiled, NotCompilable, unchanged
from tracer.graph.fakes.fake_tensors import expr_of, is_symbolic, storages_of
from tracer.graph.fakes.flattened import Place, filled, found_at, is_written, tensors_inside, with_places
from tracer.graph.fakes.wrapper_fakes import WrapperFake
from tracer.graph.output_graph import EXAMPLE

Read = Callable[[tuple[Any, ...]], Any]  # gives a value from the inputs of the graph as it was


def take_apart_written(graph: fx.Graph, examples: list[Any]) -> tuple[list[Any], Callable[[Compiled], Compiled]]:
    """Replaces such wrappers among the inputs of a graph. Returns the new example inputs, and a function that wraps the compiled
    graph: it is called with the inputs of before."""
    written = [i for i, example in enumerate(examples) if isinstance(example, WrapperFake) and is_written(example)]
    if not written:
        return examples, unchanged
    _refuse_other_results(graph, [examples[i] for i in written])
    inputs = _Inputs(graph, examples)
    before = list(inputs.placeholders)
    for i in written:
        before[i].replace_all_uses_with(inputs.put_together(examples[i], operator.itemgetter(i)))
        graph.erase_node(before[i])
    kept = [i for i in range(len(examples)) if i not in written]

    def around(compiled: Compiled) -> Compiled:
        return lambda *args: compiled(*[args[i] for i in kept], *[read(args) for read in inputs.reads])

    return [examples[i] for i in kept] + inputs.added, around


def _refuse_other_results(graph: fx.Graph, written: list[WrapperFake]) -> None:
    """Refuses results in the memory that is written to, besides the inputs themselves: they would get memory of their own."""
    storages = storages_of(tensor for wrapper in written for tensor in tensors_inside(wrapper))
    returned: Any = graph.output_node().args[0]
    for node in returned:
        example = node.meta.get(EXAMPLE) if isinstance(node, fx.Node) and node.op != "placeholder" else None
        if isinstance(example, WrapperFake) and not storages.isdisjoint(storages_of(tensors_inside(example))):
            raise NotCompilable(f"a result lies in the memory of a {example.wrapper.__qualname__} that is written to")


class _Inputs:
    """The inputs of a graph, to which those are added that wrappers are made of."""

    def __init__(self, graph: fx.Graph, examples: list[Any]) -> None:
        self.graph = graph
        self.placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        self.added: list[Any] = []  # the example values of the new ones
        self.reads: list[Read] = []  # and how to get their values
        self._known = {_key(example): node for example, node in zip(examples, self.placeholders, strict=True)}
        self._made: list[fx.Node] = []

    def put_together(self, wrapper: WrapperFake, read: Read) -> fx.Node:
        """A node that makes a wrapper from the tensors inside. `read` gives the wrapper."""
        flattened = wrapper.flattened
        assert flattened is not None
        inner = [self._part(part, _attribute(read, name)) for name, part in flattened.parts.items()]
        numbers: list[fx.Node] = []
        sizes = self._with_places(tuple(wrapper.size()), lambda args: read(args).size(), numbers)
        strides = self._with_places(tuple(wrapper.stride()), lambda args: read(args).stride(), numbers)
        context = self._with_places(flattened.context, lambda args: read(args).__tensor_flatten__()[1], numbers)
        make = maker(wrapper.wrapper, tuple(flattened.parts), context, sizes, strides)
        with self.graph.inserting_after(self._made[-1] if self._made else self.placeholders[-1]):
            made = self.graph.call_function(make, (*inner, *numbers))
        made.meta[EXAMPLE] = wrapper
        self._made.append(made)
        return made

    def _part(self, part: torch.Tensor, read: Read) -> fx.Node:
        return self.put_together(part, read) if isinstance(part, WrapperFake) else self._input(part, read)

    def _input(self, example: Any, read: Read) -> fx.Node:
        key = _key(example)
        if key not in self._known:
            with self.graph.inserting_after(self.placeholders[-1]):
                node = self.graph.placeholder(f"inside_{len(self.added)}")
            node.meta[EXAMPLE] = example
            self._known[key] = node
            self.placeholders.append(node)
            self.added.append(example)
            self.reads.append(read)
        return self._known[key]

    def _with_places(self, value: Any, read: Read, numbers: list[fx.Node]) -> Any:
        """Sizes or a context, with a place for each number that is symbolic, whose input is added to `numbers`."""

        def note(number: Any, path: tuple[Any, ...]) -> Place:
            numbers.append(self._input(number, lambda args: found_at(read(args), path)))
            return Place(len(numbers) - 1)

        return with_places(value, note)


def maker(cls: Any, names: tuple[str, ...], context: Any, sizes: Any, strides: Any) -> Callable[..., torch.Tensor]:
    """The operation that puts a wrapper together from the tensors inside and the numbers for the places."""

    def make(*args: Any) -> torch.Tensor:
        numbers = args[len(names) :]
        known, shape, steps = (filled(value, numbers) for value in (context, sizes, strides))
        found: torch.Tensor = cls.__tensor_unflatten__(dict(zip(names, args)), known, torch.Size(shape), steps)
        return found

    make.__name__ = cls.__name__
    return make


def _key(example: Any) -> Any:
    return expr_of(example) if is_symbolic(example) else id(example)


def _attribute(read: Read, name: str) -> Read:
    return lambda args: getattr(read(args), name)
