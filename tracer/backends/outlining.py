"""Compiles equal blocks of a graph once: the graph is cut into pieces, each distinct one is given to the compiler, and the pieces
are called in turn.

Each piece is a graph of its own to the compiler, as on both sides of a graph break: gradients flow from one to the next, and
random numbers are drawn in the order of the pieces, which is that of the operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import fx
from torch._guards import TracingContext, tracing

from tracer import logs
from tracer.backends.piece_calls import calling
from tracer.backends.repeated_blocks import Division, NotInPieces, Piece, divide, divide_at_written
from tracer.backends.state_ranges import StateOfCompiler, changes_state
from tracer.graph.graph_module import with_graph
from tracer.graph.output_graph import EXAMPLE
from tracer.operators.kept_from_compilers import sets_what_compilers_read
from tracer.operators.sparse_rules import is_sparse

Compiled = Callable[..., Any]
Compiler = Callable[[fx.GraphModule, list[Any]], Compiled]
_FEWEST_BLOCKS, _FEWEST_OPERATIONS = 3, 100  # that "auto" takes for worth it


class Unrolls(Exception):
    """An operation of a graph is not to be compiled (a compiler would unroll it), and the graph cannot be cut around it."""


def outlined(compiler: Compiler, graph: fx.Graph, mode: str, unrolls: bool) -> Compiler:
    """A compiler that gives each distinct piece of the graph, whose nodes still have the fakes of the trace, to `compiler`;
    `compiler` itself where the graph is left whole. `mode`: `flat`, `outline` or `auto`. `unrolls`: the compiler would write
    recurrent layers out, which therefore are pieces that run as written, as operations that are marked are; raises Unrolls where
    the graph cannot be cut there."""
    division = divide_at_written(graph, unrolls)
    if isinstance(division, str):
        raise Unrolls(f"an operation is not to be compiled, and the graph cannot be cut around it: {division}")
    pieces = division or _into_blocks(graph, mode)
    if pieces is None:
        return compiler
    of_piece = _in_context_of_its_own(compiler)
    return lambda gm, inputs: _Pieces(of_piece, gm, inputs, pieces).runner()


def _into_blocks(graph: fx.Graph, mode: str) -> Division | None:
    """The pieces of a graph with equal blocks; None where it is left whole, which the log explains."""
    if mode == "flat":
        return None
    division = divide(graph)
    if isinstance(division, str):
        logs.emit("repeated", f"left whole: {division}")
        return None
    if mode == "auto" and not _is_worth_it(division):
        logs.emit("repeated", f"left whole, as there is little to gain: {division}")
        return None
    logs.emit("repeated", f"outlined: {division}")
    return division


def _in_context_of_its_own(compiler: Compiler) -> Compiler:
    """The compiler for a piece of a graph: what it notes in the TracingContext is about that piece alone."""

    def compile_piece(gm: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        with tracing(TracingContext(TracingContext.get().fake_mode)):
            return compiler(gm, inputs)

    return compile_piece


def _is_worth_it(division: Division) -> bool:
    return division.repeated >= _FEWEST_OPERATIONS and max(len(each.starts) for each in division.repeats) >= _FEWEST_BLOCKS


class _Pieces:
    """The pieces of one graph, whose nodes have torch's fakes by now."""

    def __init__(self, compiler: Compiler, gm: fx.GraphModule, inputs: list[Any], division: Division) -> None:
        self._compiler, self._gm, self._pieces = compiler, gm, division.pieces
        self._sizes = _inputs_for_symbols(gm.graph)
        self._outputs = _outputs(division.pieces)
        self._examples = dict(zip((node for node in gm.graph.nodes if node.op == "placeholder"), inputs, strict=True))

    def runner(self) -> Compiled:
        with StateOfCompiler() as state:
            return self._runner(state)

    def _runner(self, state: StateOfCompiler) -> Compiled:
        compiled: dict[int, Compiled] = {}
        numbers: dict[int, int] = {}  # kind of piece -> place in `compiled`
        steps = []
        placeholders = list(self._examples)
        slots = {node: i for i, node in enumerate(placeholders)}
        for piece in self._pieces:
            inputs, results = self._inputs(piece), [piece.nodes[i] for i in self._outputs[piece.kind]]
            if piece.kind not in compiled:
                compiled[piece.kind] = self._compile(piece, inputs, results)
            for node in piece.nodes if piece.as_written else ():
                if sets_what_compilers_read(node.target):  # the graph ends in the state in which it began
                    node.target(*node.args)
                elif changes_state(node):
                    state.change(node)
            for node in results:
                slots.setdefault(node, len(slots))
            numbers.setdefault(piece.kind, len(numbers))
            steps.append((numbers[piece.kind], [slots[node] for node in inputs], [slots[node] for node in results]))
        returned: Any = self._gm.graph.output_node().args[0]
        known = [node for node in self._gm.graph.nodes if node.op == "get_attr" and node in returned]
        constants = {node: len(slots) + i for i, node in enumerate(known)}
        values = [getattr(self._gm, str(node.target)) for node in known]
        places = [{**slots, **constants}.get(each, each) for each in returned]
        keeps_state = not any(piece.as_written for piece in self._pieces)
        return calling(list(compiled.values()), steps, places, values, keeps_state)

    def _inputs(self, piece: Piece) -> list[fx.Node]:
        """The values that a piece is given: the sizes that its symbols stand for come first."""
        nodes = (*piece.inputs, *piece.nodes)
        symbols = {symbol: None for node in nodes for symbol in _symbols_of(node.meta.get(EXAMPLE))}
        sizes = [self._sizes[symbol] for symbol in sorted(symbols, key=str) if symbol in self._sizes]
        return list(dict.fromkeys([*sizes, *piece.inputs]))

    def _compile(self, piece: Piece, inputs: list[fx.Node], results: list[fx.Node]) -> Compiled:
        graph = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {}
        for node in inputs:
            copies[node] = graph.placeholder(node.name)
            copies[node].meta[EXAMPLE] = self._example(node)
        for node in piece.nodes:
            for each in node.all_input_nodes:
                if each.op == "get_attr" and each not in copies:
                    copies[each] = graph.node_copy(each)
            copies[node] = graph.node_copy(node, copies.__getitem__)
        graph.output(tuple([copies[node] for node in results]))
        module = with_graph(self._gm, graph)
        if piece.as_written or not any(isinstance(node.meta.get(EXAMPLE), torch.Tensor) for node in piece.nodes):
            as_written: Compiled = module.forward
            return as_written
        try:
            return self._compiler(module, [copies[node].meta[EXAMPLE] for node in inputs])
        except Exception as error:
            raise NotInPieces(f"a compiler failed on a piece of it ({type(error).__name__}: {error})") from error

    def _example(self, node: fx.Node) -> Any:
        example = self._examples.get(node, node.meta[EXAMPLE])
        if node in self._examples or not isinstance(example, torch.Tensor) or is_sparse(example):
            return example
        mode: Any = example.fake_mode  # all tensors of a converted graph are fakes
        with mode, torch.enable_grad():
            fake = torch.empty_strided(example.shape, example.stride(), dtype=example.dtype, device=example.device)
            if example.is_conj():
                torch._C._set_conj(fake, True)
            return fake.requires_grad_(example.requires_grad)


def _outputs(pieces: Sequence[Piece]) -> dict[int, list[int]]:
    """For each kind of piece, the places of the operations whose results are used outside of any piece of that kind."""
    found: dict[int, set[int]] = {}
    for piece in pieces:
        inside = set(piece.nodes)
        used = found.setdefault(piece.kind, set())
        used.update(i for i, node in enumerate(piece.nodes) if any(user not in inside for user in node.users))
    return {kind: sorted(used) for kind, used in found.items()}


def _inputs_for_symbols(graph: fx.Graph) -> dict[Any, fx.Node]:
    """The inputs of a graph that are sizes, by their symbols."""
    found: dict[Any, fx.Node] = {}
    for node in graph.nodes:
        example = node.meta.get(EXAMPLE)
        if node.op == "placeholder" and isinstance(example, torch.SymInt) and example.node.expr.is_Symbol:
            found.setdefault(example.node.expr, node)
    return found


def _symbols_of(example: Any) -> Iterable[Any]:
    if isinstance(example, torch.SymInt):
        symbols: set[Any] = example.node.expr.free_symbols
        return symbols
    if not isinstance(example, torch.Tensor) or example.layout is not torch.strided:
        return ()
    numbers = (*example.shape, *example.stride())
    return [symbol for number in numbers if isinstance(number, torch.SymInt) for symbol in number.node.expr.free_symbols]
