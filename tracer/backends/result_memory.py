"""Gives the results of a compiled graph the memory that they have when the graph runs as written.

AOTAutograd makes a result that is a view of an input anew, from the sizes and strides that it had in the compile. Where the
graph writes to the input, it takes the storage offset for 0, and copies a result that has a history of its own
(`result.data = x`). Inductor returns the input itself for `x + zeros`, and so does
torch.compile: a later write to the one then reaches the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from tracer.backends.view_strides import changes_metadata, tensors_of
from tracer.graph.fakes.exchanged_data import assign_data, data_for, exchanged
from tracer.graph.fakes.fake_tensors import mode_of, storage_of, storages_of
from tracer.graph.fakes.flattened import is_written, tensors_inside
from tracer.graph.fakes.wrapper_fakes import WrapperFake
from tracer.graph.graph_module import part_of
from tracer.graph.output_graph import EXAMPLE
from tracer.graph.own_leaves import changes_grad_mode, with_grad_mode

Compiled = Callable[..., Any]
METADATA = frozenset({"size", "stride", "storage_offset", "numel", "dim"})  # methods that read no elements


def is_about_shared_memory(error: Exception) -> bool:
    """Whether a compiler refuses inputs that share memory which is written to. AOTAutograd does, where something in the graph
    requires a gradient and autograd does not know them for views of one tensor."""
    return isinstance(error, AssertionError) and "does not yet handle" in str(error) and "mutations" in str(error)


def unchanged(compiled: Compiled) -> Compiled:
    return compiled


def take_out_views(graph: fx.Graph) -> Callable[[Compiled], Compiled]:
    """Removes results that are views of inputs which the graph writes to. Returns a function that wraps the compiled graph: it
    makes these views of the inputs, as the program does, and puts them among the results. Results with a history of their own are
    not removed, but given the memory of such views."""
    returned: Any = graph.output_node().args[0]
    if not isinstance(returned, (list, tuple)):
        return unchanged
    views = _Views(graph)
    nodes = [(i, node) for i, node in enumerate(returned) if isinstance(node, fx.Node)]
    places = [i for i, node in nodes if views.can_be_made_outside(node)]
    views.refuse_of_wrappers(node for i, node in nodes if i not in places)
    kept = [i for i, node in nodes if i not in places and views.has_exchanged_data(node)]
    if not places and not kept:
        return unchanged
    make = part_of(graph, [returned[i] for i in places], views.same_as)
    lie = part_of(graph, [returned[i] for i in kept], views.memory_of)
    results = [_copied(graph, node) if i in kept else node for i, node in enumerate(returned) if i not in places]
    graph.output_node().args = (tuple(results),)

    def around(compiled: Compiled) -> Compiled:
        def run(*args: Any) -> Any:
            results = list(compiled(*args))
            for place, view in zip(places, make.forward(*args), strict=True):
                results.insert(place, view)
            if kept:
                with torch.no_grad():
                    for place, view in zip(kept, lie.forward(*args), strict=True):
                        assign_data(results[place], view)
            return results

        return run

    return around


def _copied(graph: fx.Graph, result: fx.Node) -> fx.Node:
    """A copy of a result that requires a gradient, with its history. AOTAutograd would make the result itself anew, as a view of
    the input. Others are left as they are."""
    example = result.meta[EXAMPLE]
    if not example.requires_grad:
        return result
    *_, (_, recorded) = with_grad_mode(graph)
    with graph.inserting_before(graph.output_node()), mode_of(example), torch.no_grad():
        if not recorded:
            graph.call_function(torch._C._set_grad_enabled, (True,))
        copy = graph.call_method("clone", (result,))
        copy.meta[EXAMPLE] = example.clone().requires_grad_()
        if not recorded:
            graph.call_function(torch._C._set_grad_enabled, (False,))
    return copy


class NotCompilable(Exception):
    """A compiler cannot be given a graph with these wrappers. The frame is traced again, and operations on wrappers break it."""


class _Views:
    """The nodes of a graph that can be computed from its inputs after it has run: views of them, and numbers from their
    metadata."""

    def __init__(self, graph: fx.Graph) -> None:
        self._outside: dict[fx.Node, bool] = {}
        self._in_memory: dict[fx.Node, bool] = {}
        inputs = [node.meta[EXAMPLE] for node in graph.nodes if node.op == "placeholder" and EXAMPLE in node.meta]
        fakes = [each for each in inputs if isinstance(each, torch.Tensor) and each.layout == torch.strided]
        modes = [getattr(each, "fake_mode", None) for each in fakes]
        written = {storage for mode in modes for storage in getattr(mode, "written_storages", ())}
        self._inside = storages_of(itertools.chain.from_iterable(map(tensors_inside, fakes)))
        self._written = {storage_of(each) for each in fakes if isinstance(each, WrapperFake) and is_written(each)}
        self._of_wrappers = {storage_of(each) for each in fakes if isinstance(each, WrapperFake)}
        self._written |= ({storage_of(each) for each in fakes} | self._inside) & written
        off = torch.is_inference_mode_enabled()
        switched = with_grad_mode(graph) if changes_grad_mode(graph) else ()
        self._unrecorded = {node for node, enabled in switched if node.op != "placeholder" and (off or not enabled)}
        self._changes_metadata = any(changes_metadata(node) for node in graph.nodes)

    def can_be_made_outside(self, result: fx.Node) -> bool:
        """Whether a result is a view of a wrapper, or of an input that is written to, and can be made after the graph has run."""
        if not self._lies_in(result, self._written | self._of_wrappers):
            return False
        if not self._is_outside(result, self.same_as, self._outside):
            return False
        differentiable = any(each.requires_grad for each in _tensors_of([result, *result.all_input_nodes]))
        return not (differentiable and self._is_unrecorded(result))

    def _is_unrecorded(self, node: fx.Node) -> bool:
        """Whether gradients are off where a view, or what it is a view of, is made. Outside of the graph they are on."""
        node = self.same_as(node)
        return node in self._unrecorded or any(map(self._is_unrecorded, node.all_input_nodes))

    def has_exchanged_data(self, result: fx.Node) -> bool:
        """Whether a result lies in an input that is written to, as data that it was given (`result.data = x`)."""
        return self._lies_in(result, self._written) and self._is_outside(result, self.memory_of, self._in_memory)

    def refuse_of_wrappers(self, results: Iterable[fx.Node]) -> None:
        """Refuses results that are views of wrappers and leave the compiled graph: AOTAutograd would make each anew by an
        `as_strided` of wrappers, which the program does not call."""
        for node in results:
            example = node.meta.get(EXAMPLE)
            if isinstance(example, WrapperFake) and node.op != "placeholder":
                if storage_of(example) in self._of_wrappers or example.requires_grad and example._is_view():
                    raise NotCompilable(f"{node.name}, a result, is a view of a {example.wrapper.__qualname__}")

    def _lies_in(self, result: fx.Node, memory: set[int]) -> bool:
        example = result.meta.get(EXAMPLE)
        if not memory or not isinstance(example, torch.Tensor) or result.op == "placeholder":
            return False
        return example.layout == torch.strided and storage_of(example) in memory and not self._changes_metadata

    def _is_outside(self, node: fx.Node, same_as: Callable[[fx.Node], fx.Node], known: dict[fx.Node, bool]) -> bool:
        node = same_as(node)
        if node not in known:
            known[node] = node.op == "placeholder" or self._is_view_or_number(
                node, lambda each: self._is_outside(each, same_as, known)
            )
        return known[node]

    def same_as(self, node: fx.Node) -> fx.Node:
        """The node that gave the tensor which this node wrote to and returned; the node itself where it made its value."""
        example = node.meta.get(EXAMPLE)
        if isinstance(example, torch.Tensor) and node.op != "placeholder":
            for each in node.all_input_nodes:
                if each.meta.get(EXAMPLE) is example:
                    return self.same_as(each)
        return node

    def memory_of(self, node: fx.Node) -> fx.Node:
        """As `same_as`, but where data were exchanged the node that gave the data."""
        node = self.same_as(node)
        return self.memory_of(node.args[1]) if node.target in (data_for, exchanged) else node

    def _is_view_or_number(self, node: fx.Node, is_outside: Callable[[fx.Node], bool]) -> bool:
        if not node.all_input_nodes or not all(map(is_outside, node.all_input_nodes)):
            return False
        tensors, operands = list(tensors_of(node)), list(_tensors_of(node.all_input_nodes))
        of_wrapper = node.target is getattr and any(isinstance(each, WrapperFake) for each in operands)
        if tensors and of_wrapper:
            return all(storage_of(each) in self._inside for each in tensors)
        if tensors:
            memory = {storage_of(each) for each in operands}
            return _is_of_torch(node) and all(storage_of(each) in memory for each in tensors)
        return node.target in METADATA or not operands


def _is_of_torch(node: fx.Node) -> bool:
    """Whether a node calls a function or a method of torch, or reads an attribute of a tensor (`x.data`, `x.T`)."""
    named = getattr(node.target, "__module__", "").startswith(("torch", "_operator"))
    return named or node.op == "call_method" or node.target is getattr


def keep_results_apart(graph: fx.Graph) -> Callable[[Compiled], Compiled]:
    """Returns a function that wraps the compiled graph: results that have memory of their own in the program, and share it with
    an input or another result of the compiled graph, are copied, and those that are views of each other are different objects.
    Which ones is seen when they first have elements: the code of a compiled graph returns the same variables at each call."""
    returned: Any = graph.output_node().args[0]
    inputs = list(_tensors_of([node for node in graph.nodes if node.op == "placeholder"]))
    sequence = isinstance(returned, (list, tuple))
    places, views = (_that_may_be_shared(returned, inputs), _views_of_results(returned)) if sequence else ([], [])
    if not places and not views:
        return unchanged

    return lambda compiled: _ResultsApart(compiled, places, views)


class _ResultsApart:
    """A compiled graph whose results at some of `places` are copied: at those that are seen to share memory. At those of `views`
    where it gives a tensor twice, the second is another object."""

    def __init__(self, compiled: Compiled, places: Iterable[int], views: Iterable[int]) -> None:
        self.compiled = compiled
        self._copied: list[int] = []
        self._unknown = list(places)
        self._views = list(views)
        self._sees_views = True

    def copies_nothing(self) -> bool:
        return not self._unknown and not self._copied and not self._views

    def __call__(self, *args: Any) -> Any:
        results = self.compiled(*args)
        if self.copies_nothing():
            return results
        results = list(results)
        self._copied += _shared(results, args, self._unknown) if self._unknown else ()
        self._unknown = [i for i in self._unknown if not _address(results[i])]
        if self._sees_views:
            self._views, self._sees_views = [i for i in self._views if _is_among(results[i], results[:i])], False
        for i in self._copied:
            results[i] = results[i].clone()
        for i in self._views:
            results[i] = results[i].detach()
        return results


def without_copies(compiled: Compiled) -> Compiled:
    """The compiled graph itself, if what `keep_results_apart` made of it is known to copy nothing; anything else as it is."""
    return compiled.compiled if isinstance(compiled, _ResultsApart) and compiled.copies_nothing() else compiled


def _is_among(result: Any, others: Iterable[Any]) -> bool:
    return any(result is each for each in others)


def _views_of_results(returned: Sequence[Any]) -> list[int]:
    """The places of results that are views of earlier ones, and no operation of autograd: a compiler may give the same tensor."""
    seen: dict[int, fx.Node] = {}
    found = []
    for i, node in enumerate(returned):
        example = node.meta.get(EXAMPLE) if isinstance(node, fx.Node) else None
        if isinstance(example, torch.Tensor) and example.layout == torch.strided and not isinstance(example, WrapperFake):
            first = seen.setdefault(storage_of(example), node)
            if first is not node and not example.requires_grad:
                found.append(i)
    return found


def _that_may_be_shared(returned: Any, inputs: list[torch.Tensor]) -> list[int]:
    """The places of results with memory of their own that a compiler may take for an input, or for another result."""
    storages = {storage_of(each) for each in inputs}
    results = {i: list(tensors_of(node)) for i, node in enumerate(returned)}
    owners: dict[int, list[int]] = {}  # storage -> the places of results that have it
    for i, tensors in results.items():
        for each in tensors:
            owners.setdefault(storage_of(each), []).append(i)
    alone = {
        places[0]: results[places[0]][0] for storage, places in owners.items() if len(places) == 1 and storage not in storages
    }
    others = [*inputs, *alone.values()]
    return [i for i, own in alone.items() if any(own is not each and _may_be_one_tensor(own, each) for each in others)]


def _may_be_one_tensor(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether two tensors have the same dtype and sizes, or may have where sizes are symbolic. Then a compiler may return one in
    place of the other."""
    if first.dtype != second.dtype or first.dim() != second.dim():
        return False
    pairs = zip(first.shape, second.shape, strict=True)
    return all(type(one) is type(other) and (type(one) is not int or one == other) for one, other in pairs)


def _shared(results: list[Any], args: tuple[Any, ...], places: list[int]) -> list[int]:
    """Those of these results that lie in the memory of an argument or of an earlier result."""
    taken = {address for address in map(_address, args) if address}
    found = []
    for i, result in enumerate(results):
        address = _address(result)
        if i in places and address in taken:
            found.append(i)
        if address:
            taken.add(address)
    return found


def _address(value: Any) -> int:
    """Of the storage of a tensor; 0 for what has none, or an empty one."""
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout != torch.strided:
        return 0
    address: int = value.untyped_storage().data_ptr()
    return address


def _tensors_of(nodes: Iterable[fx.Node]) -> Iterator[torch.Tensor]:
    return itertools.chain.from_iterable(map(tensors_of, nodes))
