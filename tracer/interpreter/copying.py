"""Which operations of a block are copied when the block is done once more, and not run on fake tensors again.

What an operation gives depends on the metadata of its arguments, which are the same in a replay. A value that nothing outside of
the block can reach is described by the fake of the first time, which then stands beside several nodes. What leaves the block gets
a fake of its own, in memory of its own. What lies in the memory of an argument or of an input is computed anew, as are writes,
what lies in memory that is written to, and what does more than compute.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from tracer.graph.fakes.fake_tensors import is_plain_fake, storage_of
from tracer.graph.journal import Copied, Event, Met, Reached, Recorded
from tracer.graph.output_graph import EXAMPLE
from tracer.interpreter.likeness import form_of_tensor
from tracer.operators.facts import offset_argument
from tracer.operators.results import NewTensor, as_new_tensor
from tracer.protocol.variable import VariableTracker
from tracer.variables.containers.sequence_base import SequenceVariable
from tracer.variables.tensors.tensor import TensorVariable

if TYPE_CHECKING:
    from tracer.graph.fakes.fake_mode import FakeMode

_META = {EXAMPLE, "location", "nn_module_stack", "pure", "another_object"}


class Copying:
    """The events of a block that are copied, and which of their results leave it."""

    def __init__(self, events: Iterable[Event] = (), reached: dict[fx.Node, Reached] | None = None) -> None:
        self.reached = reached or {}
        self._events = set(map(id, events))

    def __contains__(self, event: Event) -> bool:
        return id(event) in self._events


def copying_of(
    events: list[Event],
    outside: Iterable[torch.Tensor],
    written: Iterable[int],
    results: Iterable[TensorVariable],
    mode: FakeMode,
) -> Copying:
    """`events`: of a block; `outside`: fakes of arguments and of what was there before; `written`: the storages that the block
    writes to, all of which it has made; `results`: the tensors that it returns. Nothing is copied where gradients are needed: a
    fake has a history. (Views of parameters require gradients under `no_grad`, too; they are made anew.)"""
    met = [event.variable.fake for event in events if isinstance(event, Met) and isinstance(event.variable, TensorVariable)]
    anew = {*map(storage_of, (*outside, *met)), *written}  # storages whose tensors have to be those of each replay
    copied: list[Event] = []
    within: dict[int, list[fx.Node]] = collections.defaultdict(list)  # by storage, the nodes whose values lie there
    copies: set[fx.Node] = set()
    for event in events:
        if not isinstance(event, (Recorded, Copied)):
            continue
        for node in event.nodes:
            for fake in _tensors(node):
                storage = storage_of(fake)
                if not is_plain_fake(fake) or (fake.requires_grad and storage not in anew):
                    return Copying()
                within[storage].append(node)
        if isinstance(event, Copied) or _is_copied(event, anew):
            copied.append(event)
            copies.update(event.nodes)
    reached = {}
    for variable in dict.fromkeys(results):
        nodes = within[storage_of(variable.fake)]
        if copies.isdisjoint(nodes):  # it was made by what is run again, or lies in the memory of an argument
            continue
        like = _as_new(variable.fake, mode) if nodes == [variable.node] else None
        if like is None:
            return Copying()
        reached[variable.node] = Reached(variable, like)
    return Copying(copied, reached)


def _is_copied(event: Recorded, anew: set[int]) -> bool:
    if event.method != "_call" or event.writes or offset_argument(event.arguments[1]) is not None:
        return False
    if any(node.meta.keys() - _META for node in event.nodes):
        return False
    leaves = [leaf for node in event.nodes for leaf in _leaves(node.meta[EXAMPLE])]
    if not leaves or not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return False
    return anew.isdisjoint(map(storage_of, leaves))


def _tensors(node: fx.Node) -> Iterator[torch.Tensor]:
    return (each for each in _leaves(node.meta[EXAMPLE]) if isinstance(each, torch.Tensor))


def _leaves(example: Any) -> Iterator[Any]:
    if isinstance(example, (tuple, list)):
        for each in example:
            yield from _leaves(each)
    else:
        yield example


def _as_new(fake: Any, mode: FakeMode) -> NewTensor | None:
    """How to make a tensor like this one in memory of its own; None where that would be another one, or might be: tensors of
    `torch.inference_mode` do not count how often they were written to."""
    if fake.is_inference() or fake._is_view() or fake._version:
        return None
    how = as_new_tensor(fake, fake.shape, fake.stride(), fake.storage_offset())
    return how if form_of_tensor(how.make(mode, ())) == form_of_tensor(fake) else None


def tensors_of(value: VariableTracker) -> Iterator[TensorVariable]:
    """The tensors that a result of a block is made of."""
    if isinstance(value, TensorVariable):
        yield value
    elif isinstance(value, SequenceVariable):
        for item in value.holdings():
            if isinstance(item, VariableTracker):
                yield from tensors_of(item)
