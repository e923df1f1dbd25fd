"""Parts of a trace that become graphs of their own: the body of an autograd.Function, a branch of `torch.cond`.

A part is recorded in place, like any other code, and is then cut out: the values that it reads from the surrounding graph become
its inputs. It must not change anything that the program could see, because it may run at another time, or not at all.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from tracer.effects.torch_state import read_state
from tracer.graph.fakes.fake_tensors import storage_of, symbols_in
from tracer.graph.graph_module import module_of, with_graph
from tracer.graph.output_graph import EXAMPLE
from tracer.graph_breaks import unsupported
from tracer.protocol.lazy import Unwrapped
from tracer.protocol.variable import ObservedException, VariableTracker
from tracer.variables.containers.dicts import DictVariable

if TYPE_CHECKING:
    from tracer.graph.output_graph import OutputGraph
    from tracer.protocol.tracer import Tracer


@dataclasses.dataclass
class Subgraph:
    """A graph that was cut out; `read` lists the nodes of the surrounding graph that its placeholders stand for, in order."""

    read: list[fx.Node]
    module: fx.GraphModule


def argument_of_function() -> None:
    """Target of a node that stands, while a function is traced, for an argument that the function will be called with."""


def rearranged(subgraph: Subgraph, read: Sequence[fx.Node], *, single: bool = False) -> fx.GraphModule:
    """The subgraph with one input for each node of `read`, in this order; `read` must contain all that it reads. With `single`
    it returns its only result, not a tuple."""
    graph = fx.Graph()
    inputs = {node: graph.placeholder(node.name) for node in read}
    for node, copy in inputs.items():
        copy.meta = dict(node.meta)
    own = dict(zip((node for node in subgraph.module.graph.nodes if node.op == "placeholder"), subgraph.read))
    copies = {placeholder: inputs[node] for placeholder, node in own.items()}
    results: Any = graph.graph_copy(subgraph.module.graph, copies)
    graph.output(results[0] if single else results)
    return with_graph(subgraph.module, graph)


def part_begins() -> None:
    """Marks the place in the graph after which a part is recorded."""


class Part:
    """A part that is being recorded: the nodes since its mark, and the changes that were observed."""

    def __init__(self, tx: Tracer) -> None:
        self.tx = tx
        self.output: OutputGraph = tx.output
        self.mark = self.output.create_node("call_function", part_begins, (), {}, None, pure=True)
        self.changed: dict[VariableTracker | None, Any] = {}  # for a dict, with its entries before the part
        self.writes = set[int]()  # the storages that it writes to, once it is recorded
        stored = [value for _, _, value in tx.effects.stored_globals() if isinstance(value, VariableTracker)]
        self.known = [*tx.effects.mutated, *stored]  # the program may reach objects through these that no open frame holds

    def nodes(self) -> list[fx.Node]:
        """The nodes of the part, in order. Inputs of the graph, which are added at its top, do not belong to it."""
        found = []
        for node in reversed(self.output.graph.nodes):
            if node is self.mark:
                break
            if node.op != "placeholder":
                found.append(node)
        return found[::-1]

    def observe(self, target: VariableTracker | None) -> None:
        """`target`, or a global where it is None, is about to change."""
        if target not in self.changed:
            self.changed[target] = dict(target.entries) if isinstance(target, DictVariable) else None

    def is_undone(self, target: VariableTracker | None) -> bool:
        """Whether a dict has the same entries in the same order as before the part."""
        before = self.changed[target]
        if before is None or not isinstance(target, DictVariable) or list(before) != list(target.entries):
            return False
        builder = self.tx.trace.builder
        pairs = [(self.changed[target][key][1], target.entries[key][1]) for key in before]
        return all(new is old or (type(old) is Unwrapped and new is builder.known(old.value)) for old, new in pairs)

    def leave(self) -> None:
        """Leaves the nodes in the graph where they were recorded."""
        self.output.graph.erase_node(self.mark)

    def cut(self, results: Sequence[Any], inputs: Sequence[fx.Node] = ()) -> Subgraph:
        """Takes the nodes out of the graph, into a new one. It returns `results`, which are nodes and constants; `inputs` are its
        first placeholders, whether it reads them or not."""
        nodes, graph = self.nodes(), fx.Graph()
        read: list[fx.Node] = []
        copies: dict[fx.Node, fx.Node] = {}

        def add_input(node: fx.Node) -> None:
            with graph.inserting_after(copies[read[-1]] if read else graph._root):
                copies[node] = graph.placeholder(node.name if node not in copies else f"{node.name}_again_{len(read)}")
            copies[node].meta = dict(node.meta)
            read.append(node)

        def copy_of(node: fx.Node) -> fx.Node:
            if node not in copies:
                add_input(node)
            return copies[node]

        for node in inputs:
            add_input(node)
        for node in nodes:
            copies[node] = graph.node_copy(node, copy_of)
        graph.output(fx.map_arg(tuple(results), copy_of))
        self._erase(nodes)
        return Subgraph(read, module_of(graph, self._attributes(graph)))

    def drop(self) -> None:
        """Deletes the nodes: they were recorded only to be looked at."""
        self._erase(self.nodes())

    def _erase(self, nodes: list[fx.Node]) -> None:
        self.output.forget_symbol_nodes(set(nodes))
        self.output.untrack(set(nodes))
        for node in (*reversed(nodes), self.mark):
            self.output.graph.erase_node(node)

    def _attributes(self, graph: fx.Graph) -> dict[str, Any]:
        names = {node.target for node in graph.nodes if node.op == "get_attr"}
        return {name: value for name, value in self.output.attributes.items() if name in names}


@contextlib.contextmanager
def recording(
    tx: Tracer,
    what: str,
    holders: Sequence[VariableTracker] = (),
    writable: Sequence[torch.Tensor] | None = (),
    for_kernels: Sequence[torch.Tensor] = (),
) -> Iterator[Part]:
    """Within, code of the program is recorded, for `cut`, `leave` or `drop` afterwards. Its side effects on objects that the open
    frames or `holders` can reach break the graph. So do writes to tensors that existed before, unless they share memory with
    `writable` (None allows all) or, where kernels of the program write, with `for_kernels`."""
    part = Part(tx)
    before, state = tx.effects.observer, read_state()
    mode = tx.output.world.fake_mode
    written, launched = len(mode.writes), len(mode.launch_writes)
    try:
        with tx.effects.observed_by(part.observe):
            yield part
    except ObservedException:
        unsupported("effect-in-subgraph", name=what, value="it raises")
    if before is not None:
        for target in part.changed:
            before(target)
    if read_state() != state:
        unsupported("effect-in-subgraph", name=what, value="it changes a switch of torch")
    part.writes = set(mode.writes[written:])
    known = {storage_of(tensor) for tensor in _tensors_before(part)} - set(map(storage_of, writable or ()))
    free = set(map(storage_of, for_kernels))
    allowed = Counter([storage for storage in mode.launch_writes[launched:] if storage in free])
    if writable is not None and not known.isdisjoint(Counter(mode.writes[written:]) - allowed):
        unsupported("effect-in-subgraph", name=what, value="it writes to a tensor that existed before")
    _refuse_visible_changes(tx, part, what, holders)


def _tensors_before(part: Part) -> Iterator[torch.Tensor]:
    inside = set(part.nodes())
    for node in part.output.graph.nodes:
        example = node.meta.get(EXAMPLE)
        if node not in inside and isinstance(example, torch.Tensor) and example.layout is torch.strided:
            yield example


def _refuse_visible_changes(tx: Tracer, part: Part, what: str, holders: Sequence[VariableTracker]) -> None:
    """Refuses changes that the program can see; it cannot see those to objects that the part made itself."""
    if not part.changed:
        return
    reachable = reachable_from(tx, (*holders, *part.known, *_held_by_frames(tx)))
    for target in part.changed:
        seen = target is None or target.source is not None or target in reachable
        if seen and not part.is_undone(target):
            unsupported("effect-in-subgraph", name=what, value="it changes an object that existed before")


def _held_by_frames(tx: Tracer) -> Iterator[VariableTracker]:
    for frame in tx.frames():
        for value in (*frame.stack, *frame.locals.values(), *frame.cells.values()):
            if isinstance(value, VariableTracker):
                yield value


def reachable_from(tx: Tracer, roots: Iterable[VariableTracker]) -> set[VariableTracker]:
    found: set[VariableTracker] = set()
    pending = list(roots)
    while pending:
        value = pending.pop()
        if value not in found:
            found.add(value)
            pending += tx.effects.held_by(value)
    return found


def refuse_new_symbols(subgraph: Subgraph, what: str) -> None:
    """Refuses a part that makes sizes that depend on data: the code after it would use symbols that only the part computes."""
    inside = set[Any]()
    outside = {symbol for node in subgraph.read for symbol in symbols_in(node.meta.get(EXAMPLE))}
    for node in subgraph.module.graph.nodes:
        inside |= set(symbols_in(node.meta.get(EXAMPLE)))
    if any(str(symbol).startswith(("u", "zuf")) for symbol in inside - outside):
        unsupported("effect-in-subgraph", name=what, value="it makes a size that depends on data")
