"""Where a graph may be cut into pieces, which of these are equal, and which run as they are written.

Two stretches of operations are equal if they call the same functions with the same constants on values with the same metadata
(sizes as expressions, strides, dtype, device, whether a gradient is required), and each value comes from the same operation of
the stretch, or is the same among the values that it takes from outside.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from tracer.backends.state_ranges import StateRange, changes_state, is_context, state_ranges
from tracer.backends.view_strides import changes_metadata, writes_to_strided_input
from tracer.graph.fakes.fake_tensors import expr_of, is_symbolic, storage_of
from tracer.graph.fakes.wrapper_fakes import WrapperFake
from tracer.graph.operations.streams import RuntimeObject
from tracer.graph.output_graph import EXAMPLE
from tracer.graph.repeats import NEVER, Repeat, find_repeats
from tracer.operators.facts import is_unrolled, runs_other_code, written_lists
from tracer.operators.kept_from_compilers import is_kept_from_compilers
from tracer.operators.proxies import SYM_TYPES
from tracer.operators.sparse_rules import is_sparse

_PRICE_OF_VALUE = 1.0  # of a tensor that is handed from one piece to another, in operations
_MOST_MORE = 8  # operations that run as written at either side of one that has to
_ABOUT_AUTOGRAD = frozenset({"backward", "requires_grad_", "detach_", "retain_grad", "register_hook", "set_", "resize_"})
_PLAIN = (int, bool, str, bytes, type(None), type(...), complex, torch.dtype, torch.device, torch.layout, torch.memory_format)


AS_WRITTEN = "as_written"  # in `meta` of an operation that compilers are not to be given


class NotInPieces(Exception):
    """A graph cannot be cut into pieces, or a compiler failed on one. The whole graph may be another matter."""


@dataclasses.dataclass(frozen=True)
class Piece:
    """A stretch of the operations of a graph. `kind`: equal pieces have the same. `as_written`: it is not compiled."""

    nodes: tuple[fx.Node, ...]
    inputs: tuple[fx.Node, ...]  # values from outside, in the order of their first use
    kind: int
    as_written: bool = False


@dataclasses.dataclass(frozen=True)
class Division:
    """The pieces of a graph in order, and what they save."""

    pieces: tuple[Piece, ...]
    repeats: tuple[Repeat, ...]

    @property
    def operations(self) -> int:
        return sum(len(piece.nodes) for piece in self.pieces)

    @property
    def repeated(self) -> int:
        """How many operations are compiled with an equal piece."""
        return sum((len(repeat.starts) - 1) * repeat.length for repeat in self.repeats)

    def __str__(self) -> str:
        blocks = ", ".join(f"{len(each.starts)} blocks of {each.length} operations" for each in self.repeats)
        distinct = len({piece.kind for piece in self.pieces})
        return f"{self.operations} operations: {blocks}; {distinct} graphs are compiled, {len(self.pieces)} called"


def keeps_from_compilers(graph: fx.Graph) -> bool:
    """Whether a graph has operations that compilers are not given, of whatever use that is to them."""
    return any(_is_kept(node) for node in graph.nodes if node.op != "placeholder")


def _is_kept(node: fx.Node) -> bool:
    if is_kept_from_compilers(node.target):
        return True
    return node.op.startswith("call") and any(is_sparse(each.meta.get(EXAMPLE)) for each in (node, *node.all_input_nodes))


def divide(graph: fx.Graph) -> Division | str:
    """The pieces of a graph, or why it is left whole. Called while the graph has the fakes of its trace."""
    nodes = _operations(graph)
    context = next(filter(is_context, nodes), None)
    whole = _why_whole(graph, nodes) or (f"{context.name} concerns the whole graph" if context else "")
    if whole:
        return whole
    tokens = _Tokens()
    prices = _prices(nodes, list(state_ranges(nodes)))
    contents = _Contents(nodes)
    repeats = find_repeats([tokens.of(node) for node in nodes], prices, contents.equal_ones)
    if not repeats:
        return f"no block of its {len(nodes)} operations is repeated"
    return Division(tuple(_pieces(nodes, repeats, contents)), tuple(repeats))


def divide_at_written(graph: fx.Graph, unrolls: bool) -> Division | str | None:
    """The pieces of a graph, those as written that are marked, or kept from compilers, or that these would unroll (recurrent
    layers), if `unrolls`; None if there are none of these; a reason if there are, and the graph cannot be cut there."""
    nodes = _operations(graph)
    stretches = list(_as_written(nodes, unrolls))
    if not stretches:
        return None
    whole = _why_whole(graph, nodes)
    if whole:
        return whole
    ranges = list(state_ranges(nodes))
    cut = [each for each in ranges if any(each.first < first and last <= each.last for first, last in stretches)]
    ends = {(place, place + 1) for each in cut for place in each if changes_state(nodes[place])}
    prices = _prices(nodes, [each for each in ranges if each not in cut])
    stretches = list(_widened(sorted({*stretches, *ends}), prices))
    if any(prices[place] == NEVER for stretch in stretches for place in stretch):
        return "what lies before and behind cannot be apart"
    repeats = [Repeat((start,), stop - start) for start, stop in stretches]
    return Division(tuple(_pieces(nodes, repeats, _Contents(nodes), as_written=True)), ())


def _as_written(nodes: list[fx.Node], unrolls: bool) -> Iterator[tuple[int, int]]:
    """The first place of each such operation, with the numbers that it alone reads, and the place behind it and what takes its
    results apart."""
    at = 0
    for i, node in enumerate(nodes):
        if at <= i and (AS_WRITTEN in node.meta or _is_kept(node) or unrolls and is_unrolled(node.target)):
            first = i
            while first > at and nodes[first - 1].target == "item" and list(nodes[first - 1].users) == [node]:
                first -= 1
            at = i + 1
            while at < len(nodes) and nodes[at].target is operator.getitem and nodes[at].args[0] in nodes[i:at]:
                at += 1
            yield first, at


def _widened(stretches: list[tuple[int, int]], prices: list[float]) -> Iterator[tuple[int, int]]:
    """The stretches, each with a few operations more where the graph cannot be cut right at its ends; those that meet are one."""
    found: list[tuple[int, int]] = []
    for first, last in stretches:
        start = next((at for at in range(first, max(first - _MOST_MORE, -1), -1) if prices[at] != NEVER), first)
        stop = next((at for at in range(last, min(last + _MOST_MORE, len(prices))) if prices[at] != NEVER), last)
        if found and start < found[-1][1]:
            start, stop = found[-1][0], max(stop, found[-1][1])
            found.pop()
        found.append((start, stop))
    return iter(found)


def _operations(graph: fx.Graph) -> list[fx.Node]:
    return [node for node in graph.nodes if node.op not in ("placeholder", "get_attr", "output")]


def _why_whole(graph: fx.Graph, nodes: list[fx.Node]) -> str:
    """Why a graph cannot be cut anywhere; empty if it can."""
    for node in nodes:
        if _concerns_the_whole_graph(node):
            return f"{node.name} concerns the whole graph"
    if writes_to_strided_input(graph):
        return "it writes to an input that is not contiguous, of which compilers take views to lie elsewhere"
    return ""


def _pieces(nodes: list[fx.Node], repeats: list[Repeat], contents: _Contents, as_written: bool = False) -> Iterator[Piece]:
    """Stretches that are repeated, and what lies between them. `as_written`: of the stretches."""
    cuts = sorted((start, start + repeat.length, kind) for kind, repeat in enumerate(repeats) for start in repeat.starts)
    kind, at = len(repeats), 0
    for start, stop, number in [*cuts, (len(nodes), len(nodes), 0)]:
        if at < start:
            yield Piece(tuple(nodes[at:start]), contents.inputs(at, start), kind)
            kind += 1
        if start < stop:
            yield Piece(tuple(nodes[start:stop]), contents.inputs(start, stop), number, as_written)
        at = stop


class _Tokens:
    """Numbers for operations, equal where all is equal but for where the arguments come from."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._described: dict[fx.Node, int] = {}

    def of(self, node: fx.Node) -> int:
        return self._number((node.op, node.target, self._argument(node.args), self._argument(node.kwargs), self._value(node)))

    def _number(self, key: Any) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _value(self, node: fx.Node) -> int:
        known = self._described.get(node)
        if known is None:
            known = self._described[node] = self._number(_described(node.meta.get(EXAMPLE)))
        return known

    def _argument(self, value: Any) -> Any:
        if isinstance(value, fx.Node):
            return "get_attr", value.target if value.op == "get_attr" else "value", self._value(value)
        if isinstance(value, (tuple, list)):
            return type(value), *map(self._argument, value)
        if isinstance(value, dict):
            return dict, *((key, self._argument(each)) for key, each in value.items())
        if isinstance(value, slice):
            return slice, *map(self._argument, (value.start, value.stop, value.step))
        if type(value) is float:
            return float, value.hex()
        return (type(value), value) if type(value) in _PLAIN else (object, id(value))


def _described(example: Any) -> Any:
    if isinstance(example, (tuple, list)):
        return type(example), *map(_described, example)
    if isinstance(example, torch.Tensor):
        return _described_tensor(example)
    if is_symbolic(example):
        return type(example), expr_of(example)
    return (
        (type(example), str(example)) if isinstance(example, (int, float, str, type(None), *SYM_TYPES)) else (object, id(example))
    )


def _described_tensor(tensor: torch.Tensor) -> Any:
    kind = type(tensor), isinstance(tensor, torch.nn.Parameter), tensor.dtype, tensor.device, tensor.layout
    if tensor.layout != torch.strided:
        return *kind, id(tensor)
    numbers = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    state = tensor.requires_grad, tensor.is_inference(), tensor.is_conj(), tensor.is_neg(), len(tensor.shape)
    return *kind, *state, *(expr_of(number) if is_symbolic(number) else int(number) for number in numbers)


class _Contents:
    """Where the arguments of operations come from, for stretches of a list of operations."""

    def __init__(self, nodes: list[fx.Node]) -> None:
        self._nodes = nodes
        self._places = {node: i for i, node in enumerate(nodes)}

    def equal_ones(self, repeat: Repeat) -> list[Repeat]:
        """A repeat divided into those with the same connections. Stretches without an equal are left out."""
        groups: dict[Any, list[int]] = {}
        for start in repeat.starts:
            groups.setdefault(self._connections(start, start + repeat.length), []).append(start)
        return [Repeat(tuple(starts), repeat.length) for starts in groups.values() if len(starts) > 1]

    def inputs(self, start: int, stop: int) -> tuple[fx.Node, ...]:
        """The values that a stretch takes from outside, in the order of their first use; `get_attr` is inside."""
        return tuple([each for each in self._numbered(start, stop) if each.op != "get_attr"])

    def _numbered(self, start: int, stop: int) -> dict[fx.Node, int]:
        outside: dict[fx.Node, int] = {}
        for node in self._nodes[start:stop]:
            for each in node.all_input_nodes:
                if not start <= self._places.get(each, -1) < stop:
                    outside.setdefault(each, len(outside))
        return outside

    def _connections(self, start: int, stop: int) -> Any:
        outside = self._numbered(start, stop)
        found = []
        for node in self._nodes[start:stop]:
            args: list[Any] = []
            fx.map_arg((node.args, node.kwargs), args.append)
            found.append(tuple([-1 - outside[each] if each in outside else self._places[each] - start for each in args]))
        memory: dict[int, int] = {}
        shared = tuple([memory.setdefault(storage, len(memory)) for each in outside for storage in _storages(each)])
        return tuple(found), shared


# -- where a graph may be cut -------------------------------------------------------------------------------------


def _prices(nodes: list[fx.Node], whole: list[StateRange]) -> list[float]:
    """What a cut before each operation, and at the end, costs: the values that are handed over there. `whole`: the stretches that
    are not cut for the state that they run in."""
    changes = [0] * (len(nodes) + 2)
    forbidden = [0] * (len(nodes) + 2)
    places = {node: i for i, node in enumerate(nodes)}
    inputs = {
        storage for node in nodes for each in node.all_input_nodes if each.op == "placeholder" for storage in _storages(each)
    }
    changed = inputs & _written_storages(nodes)
    for i, node in enumerate(nodes):
        last = max((places[user] for user in node.users if user in places), default=i)
        example = node.meta.get(EXAMPLE)
        is_plain = isinstance(example, torch.Tensor) and changed.isdisjoint(_storages(node))  # a view of a changed input is not
        marks = changes if is_plain else forbidden
        if is_context(node) or isinstance(example, (torch.SymInt, int, RuntimeObject)) and not isinstance(example, bool):
            continue  # what runs as written is handed contexts and objects
        marks[i + 1] += 1
        marks[last + 1] -= 1
    for first, last in (*((each.first + 1, each.last) for each in whole), *_written_memory(nodes)):
        forbidden[first] += 1
        forbidden[last + 1] -= 1
    prices: list[float] = []
    price = never = 0
    for i in range(len(nodes) + 1):
        price, never = price + changes[i], never + forbidden[i]
        prices.append(NEVER if never else price * _PRICE_OF_VALUE)
    prices[0] = prices[-1] = 0.0
    return prices


def _written_memory(nodes: list[fx.Node]) -> Iterator[tuple[int, int]]:
    """Memory that is written to belongs to one piece, from the first operation that touches it to the last that may write."""
    written = _written_storages(nodes)
    spans: dict[int, tuple[int, int]] = {}
    for i, node in enumerate(nodes):
        read = {storage for each in node.all_input_nodes for storage in _storages(each)}
        for storage in read.union(_storages(node)) & written:
            first, last = spans.get(storage, (i, i))
            spans[storage] = first, i if storage in read and _may_write(node) else last
    yield from ((first + 1, last) for first, last in spans.values() if first < last)


def _written_storages(nodes: list[fx.Node]) -> set[int]:
    modes = {
        id(mode): mode for node in nodes for each in _tensors(node) if (mode := getattr(each, "fake_mode", None)) is not None
    }
    return {storage for mode in modes.values() for storage in getattr(mode, "written_storages", ())}


def _may_write(node: fx.Node) -> bool:
    """Whether an operation may write to one of its arguments, as far as its name tells."""
    if any(each is True for each in _leaves((node.args, node.kwargs))) or "out" in node.kwargs:
        return True  # `inplace` may be given by position
    if node.op == "call_method":
        return str(node.target).endswith("_")
    if is_kept_from_compilers(node.target):
        return False
    name, module = getattr(node.target, "__name__", "_"), getattr(node.target, "__module__", None)
    if module == "_operator":
        return name.startswith(("i", "set", "del"))
    of_torch = getattr(torch, name, None) is node.target or module == "torch.nn.functional"
    return not of_torch or name.endswith("_") or "norm" in name  # those of batches write their statistics


def _concerns_the_whole_graph(node: fx.Node) -> bool:
    """Whether an operation needs the history of gradients, or changes state of torch for those that follow, or a kind of value is
    computed that no piece can be given."""
    if _is_kept(node):
        return False
    example = node.meta.get(EXAMPLE)
    if node.op == "call_method" and node.target in _ABOUT_AUTOGRAD or changes_metadata(node):
        return True
    if str(getattr(node.target, "__module__", "")).startswith("torch.autograd") and not is_context(node):
        return True
    if any(_is_not_plain(each) for each in _tensors(node)):
        return True
    has_result = example is not None or node.op == "call_method" or node.target is operator.setitem
    if has_result or written_lists(node.target) or runs_other_code(node.target):
        return False
    return not changes_state(node) and node.target is not torch.ops.aten._assert_scalar.default


def _is_not_plain(tensor: torch.Tensor) -> bool:
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor(tensor) or isinstance(tensor, WrapperFake)
    return tensor.layout != torch.strided or wrapped or tensor.is_nested or _has_unbacked(tensor)


def _has_unbacked(tensor: torch.Tensor) -> bool:
    return any(is_symbolic(size) and size.node.hint is None for size in tensor.shape)


def _tensors(node: fx.Node) -> list[torch.Tensor]:
    return [each for each in _leaves(node.meta.get(EXAMPLE)) if isinstance(each, torch.Tensor)]


def _storages(node: fx.Node) -> list[int]:
    return [storage_of(each) for each in _tensors(node) if each.layout == torch.strided]


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _leaves(each)
    else:
        yield value
