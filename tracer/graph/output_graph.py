"""The FX graph of one trace: nodes, the fake value of each, graph inputs, and the guards gathered on the way."""

from __future__ import annotations

import contextlib
import itertools
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import fx
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.fx.node import map_arg

from tracer import config
from tracer.compat_torch.fx_nodes import another_node
from tracer.errors import TraceAnew, Unsupported
from tracer.graph.attempt import AttemptOptions
from tracer.graph.chances import Chances
from tracer.graph.compiled_wrappers import CompiledWrappers
from tracer.graph.fakes.exchanged_data import ResizedLeaves
from tracer.graph.fakes.fake_tensors import FakeWorld, expr_of, symbols_in
from tracer.graph.fakes.function_views import FunctionViews
from tracer.graph.fakes.input_memory import InputMemory
from tracer.graph.fakes.nested_rules import nested_form
from tracer.graph.fakes.wrapper_fakes import WrapperFake, refuse_overridden, wrappers_in
from tracer.graph.inputs import EXAMPLE, GraphInput, WrittenInput
from tracer.graph.journal import Journal, NoJournal
from tracer.graph.own_leaves import OwnLeaves, is_own_leaf
from tracer.graph.runtime_asserts import RuntimeAsserts
from tracer.graph.sparse_operands import check_sparse
from tracer.graph.storage_offsets import check_placement
from tracer.graph_breaks import unsupported
from tracer.operators.facts import is_compliant, runs_other_code, writes
from tracer.operators.meta import UnknownLayout, fake_form, fake_method
from tracer.operators.strides import assume_copied
from tracer.protocol.variable import ObservedException, VariableTracker

if TYPE_CHECKING:
    from shapes.domain import Domain
    from tracer.graph.recorder import Recorder
    from tracer.guards.base import Guard
    from tracer.sources.base import Source

MUST_RUN = "must_run"  # in the `meta` of a node: it does more than compute its result, so it runs even if that is not used
DATA_DEPENDENT = (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode)


class Refusal(NamedTuple):
    """The graph break for a side effect of code that is run on trial only."""

    id: str
    value: str


class OutputGraph:
    """The FX graph that one trace produces. It knows FX and fake tensors, but not bytecode."""

    def __init__(self, world: FakeWorld, recorder: Recorder, options: AttemptOptions) -> None:
        self.graph = fx.Graph()
        self.world = world
        self.options = options
        self._recorder: Recorder | None = recorder  # None once the graph is finished
        self.wrappers = CompiledWrappers(options, recorder)
        world.fake_mode.answer_wrappers_with(recorder.dispatched)
        self.guards: dict[Guard, None] = {}
        self.journal = Journal() if options.replays else NoJournal()
        self.inputs: dict[Source, GraphInput] = {}
        self.memory = None if options.runs_as_written else InputMemory()  # of inputs; set if the backend may reorder
        self.attributes: dict[str, Any] = {}  # constants of the graph module
        self.runtime_asserts = RuntimeAsserts(self)
        self._tracked_fakes: dict[int, tuple[Any, VariableTracker]] = {}
        self._symbol_nodes: dict[Any, fx.Node] = {}
        self._last_placeholder: fx.Node | None = None
        self.own_leaves = OwnLeaves()
        self.resized_leaves = ResizedLeaves()
        self.function_views = FunctionViews()
        self._written: frozenset[int] = frozenset()  # storages that the nodes recorded so far write to
        self._kept: set[Source] = set()  # inputs that the graph writes to without naming them
        self._failing = 0  # how many operators so far may fail
        self.operations = 0  # how many nodes so far do more than compute with sizes or take a result apart
        self._draws = 0  # how many operators so far have drawn random numbers
        self.seeded_at: int | None = None  # the step that sets torch's random state after the graph: no draw may follow
        self.chances = Chances(options)
        self.parts: dict[int, tuple[Any, dict[str, VariableTracker]]] = {}  # of wrappers made by operations, by id of the fake
        self.modules_of_wrappers: set[str] = set()  # modules of classes whose `__torch_dispatch__` was traced
        self.traces_wrapper = False  # while a `__torch_dispatch__` is traced
        self._failure_in_dispatch: BaseException | None = None
        self.on_trial: Refusal | None = None  # set while code runs on trial, and must not record nodes

    @property
    def recorder(self) -> Recorder:
        assert self._recorder is not None, "the graph is made"
        return self._recorder

    @property
    def runs_as_written(self) -> bool:
        return self.options.runs_as_written

    # -- inputs --------------------------------------------------------------------------------------------------

    def add_input(self, source: Source, real: Any, fake: Any, name: str | None = None, own_memory: bool = False) -> fx.Node:
        """The placeholder for a value that existed before the frame ran, or that the output code makes (`own_memory`)."""
        known = self.inputs.get(source)
        if known is not None:
            return known.node
        with self._at_inputs():
            node = self.graph.placeholder(name or input_name(source))
        node.target = node.name  # the names of two sources may look the same
        self._last_placeholder = node
        node.meta[EXAMPLE] = fake
        item = self.inputs[source] = GraphInput(node, source, real)
        strided = isinstance(fake, torch.Tensor) and fake.layout is torch.strided and type(fake) is not WrapperFake
        if self.memory is not None and strided and not own_memory:
            self.memory.add(item)
        return node

    def add_symbol(self, expr: Any, source: Source, real: float, symint: Any) -> fx.Node:
        """The SymInt placeholder of a symbol that occurs in the sizes of inputs."""
        node = self._symbol_nodes.get(expr)
        if node is None:
            name = None if source.base is None else str(expr)  # a size is named after its symbol, an int after its source
            node = self.add_input(source, real, symint, name)
            self._symbol_nodes[expr] = node
        return node

    def declare_sizes(self, domain: Domain, sizes: Mapping[str, tuple[Source, int]]) -> None:
        """Makes the variables of a domain symbols of the trace. `sizes` has the source of each, and its size in this call."""
        for symbol in self.world.env.declare(domain, sizes):
            source, real = sizes[symbol.labels[0].name]
            self.add_symbol(symbol.sympy, source, real, self.world.symbol(symbol))

    def symbol_node(self, expr: Any) -> fx.Node | None:
        return self._symbol_nodes.get(expr)

    def remember_symbol_node(self, expr: Any, node: fx.Node) -> None:
        self._symbol_nodes[expr] = node

    def forget_symbol_nodes(self, nodes: set[fx.Node]) -> None:
        """Forgets nodes that leave the graph. Symbols that they computed are computed again when needed."""
        self._symbol_nodes = {expr: node for expr, node in self._symbol_nodes.items() if node not in nodes}

    def add_module(self, name: str, module: fx.GraphModule) -> fx.Node:
        """Adds a graph that operations of this one run, as an attribute of the graph module."""
        name = next(free for n in itertools.count() if (free := f"{name}_{n}") not in self.attributes)
        self.attributes[name] = module
        return self.create_node("get_attr", name, (), {}, module, pure=True)

    def _at_inputs(self) -> contextlib.AbstractContextManager[Any]:
        last, graph = self._last_placeholder, self.graph
        point: contextlib.AbstractContextManager[Any]
        if last is None:
            point = graph.inserting_before(next(iter(graph.nodes), graph._root))
        else:
            point = graph.inserting_after(last)
        return point

    # -- operations ----------------------------------------------------------------------------------------------

    def refuse_on_trial(self) -> None:
        if self.on_trial is not None:
            unsupported(self.on_trial.id, value=self.on_trial.value)

    @contextlib.contextmanager
    def trial(self, refusal: Refusal) -> Iterator[None]:
        """While entered, code is run to see what it would do. If it records an operation, the graph breaks with `refusal`."""
        outer, self.on_trial = self.on_trial, refusal
        try:
            yield
        finally:
            self.on_trial = outer

    @contextlib.contextmanager
    def tracing_wrapper(self) -> Iterator[None]:
        """While entered, a `__torch_dispatch__` is traced, below autograd: results of operations are not memoised."""
        outer, self.traces_wrapper = self.traces_wrapper, True
        try:
            with self.world.operations.bypass():
                yield
        finally:
            self.traces_wrapper = outer

    def note_failure_in_dispatch(self, error: BaseException) -> None:
        """Remembers why a `__torch_dispatch__` failed. The C++ code that called the tracer may replace the error by another."""
        self._failure_in_dispatch = error

    def call_function(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> VariableTracker:
        """Records `target(*args, **kwargs)`; arguments are FX arguments (nodes and constants)."""
        return self._call("call_function", target, target, args, kwargs)

    def call_method(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> VariableTracker:
        return self._call("call_method", name, operator.methodcaller, args, kwargs)

    def _call(self, op: str, target: Any, run: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> VariableTracker:
        writes = self.world.fake_mode.writes
        before = len(writes)
        with self.journal.recording("_call", op, target, run, args, kwargs) as event:
            event.result = result = self._record_call(op, target, run, args, kwargs)
            event.writes = len(writes) > before
        return result

    def _record_call(self, op: str, target: Any, run: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> VariableTracker:
        self.refuse_on_trial()
        fake_args, fake_kwargs = map_arg((args, kwargs), example_of)
        check_placement(self, target, fake_args, fake_kwargs)
        check_sparse(self, target, fake_args, fake_kwargs)
        if config.only_allow_pt2_compliant_ops and not is_compliant(target, fake_args, fake_kwargs):
            unsupported("operator-not-compliant", operator=_target_name(target))
        call = fake_method(fake_args[0], target) if op == "call_method" else run
        self._check_wrappers(target, (args, kwargs))
        if self.world.fake_mode.met_wrapper:
            refuse_overridden(target, wrappers_in((fake_args, fake_kwargs)))
        rest = fake_args[1:] if op == "call_method" else fake_args
        try:
            example = self.world.operations.run(
                target, lambda: self.run_fake(call, rest, fake_kwargs, target), fake_args, fake_kwargs
            )
        except Unsupported as failure:
            plain = map_arg((args, kwargs), plain_bool)
            if failure.id != "operator-failed-in-trace" or plain == (args, kwargs):
                raise
            return self._record_call(op, target, run, *plain)
        if not self.options.runs_as_written:
            assume_copied(self.world.fake_mode, _target_name(target), fake_args, example)
        node = self.create_node(op, target, args, kwargs, example)
        result = self.wrap(node, example)
        self.runtime_asserts.place_new()
        if self.options.holds_leaves and is_own_leaf(example):
            self.recorder.hold_leaf(result)
        return result

    def run_fake(self, function: Callable[..., Any], args: Any, kwargs: Any, what: object) -> Any:
        """Runs an operation on fake tensors. A result that depends on data breaks the graph."""
        if not self.traces_wrapper:
            self._failure_in_dispatch = None
        try:
            asserting = function is torch.autograd.grad or function is operator.setitem  # both compare sizes when they run
            opaque = self.world.concerns_wrappers(function, args, kwargs)
            function = nested_form(function, self.runs_as_written) if opaque else fake_form(function)
            self.world.fake_mode.watch_writes()
            with self.world.env.asserting_itself() if asserting else contextlib.nullcontext():
                result = self.world.run(function, args, kwargs)
        except DATA_DEPENDENT as error:
            text = str(error).partition("\n")[0]
            undecided = getattr(error, "cond", None)
            unsupported("data-dependent-operator", operator=_target_name(what), error=text, undecided=undecided)
        except UnknownLayout:
            unsupported("layout-of-out", operator=_target_name(what))
        except (ObservedException, RecursionError):
            raise
        except Exception as error:
            if self._failure_in_dispatch is not None:
                raise self._failure_in_dispatch from None
            unsupported("operator-failed-in-trace", operator=_target_name(what), error=f"{type(error).__name__}: {error}")
        if self.world.fake_mode.wrote_over_itself and not self.runs_as_written:
            unsupported("write-over-itself", operator=_target_name(what))
        if self._failure_in_dispatch is not None:  # C++ or torch's Python code has caught it
            raise self._failure_in_dispatch
        return result

    def symbolic_result(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], example: Any
    ) -> VariableTracker:
        """Records arithmetic on symbolic numbers, whose result is already known. A constant result leaves no node."""
        with self.journal.recording("symbolic_result", function, args, kwargs, example) as event:
            known = self._symbol_nodes.get(expr_of(example)) if isinstance(example, torch.SymInt) else None
            node = known or self.create_node("call_function", function, args, kwargs, example, pure=True)
            event.result = result = self.wrap(node, example)
        return result

    def measure(self, tensor: fx.Node, method: str, dim: int, example: torch.SymInt) -> VariableTracker:
        """A symbolic size or stride of a tensor of the graph."""
        expr = expr_of(example)
        with self.journal.recording("measure", tensor, method, dim, example) as event:
            node = self._symbol_nodes.get(expr)
            if node is None:
                node = self.create_node("call_method", method, (tensor, dim), {}, example, pure=True)
                self._symbol_nodes[expr] = node
            event.result = result = self.wrap(node, example)
        return result

    def symbol_nodes(self) -> set[fx.Node]:
        """The nodes that give a symbol, or an expression of symbols."""
        return set(self._symbol_nodes.values())

    def item(self, node: fx.Node, index: int, example: Any) -> fx.Node:
        """One of the results of a node."""
        return self.create_node("call_function", operator.getitem, (node, index), {}, example, pure=True)

    def wrap(self, node: fx.Node, example: Any) -> VariableTracker:
        """The tracked form of what a node gives."""
        return self.recorder.wrap_result(node, example)

    def create_node(
        self, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], example: Any, pure: bool = False
    ) -> fx.Node:
        must_run = False
        if not pure:
            self.refuse_on_trial()
            must_run = self._does_more_than_compute(target)
            self._refuse_to_fail()
        recorder = self.recorder
        recorder.check_time()
        self._check_wrappers(target, (args, kwargs))
        if target is operator.pow and isinstance(args[0], (int, float)):
            target = pow  # torch.fx writes operator.pow(-7, n) as `-7 ** n`, which is -(7 ** n)
        node = self.graph.create_node(op, target, args, kwargs)
        self.journal.made(node)
        node.meta[EXAMPLE] = example
        if is_own_leaf(example):
            self.own_leaves.note(example, recorder.break_step())
        node.meta["location"] = recorder.location()
        modules = recorder.module_stack()
        if modules:
            node.meta["nn_module_stack"] = modules
        if must_run:
            node.meta[MUST_RUN] = True
        if pure:
            node.meta["pure"] = True
            return node
        self.operations += 1
        if self.memory is not None:
            self.memory.note(target, self.world.fake_mode.written_storages)
        self.wrappers.refuse_written()
        return node

    def copy_node(
        self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any], example: Any, modules: dict[str, tuple[str, type]]
    ) -> fx.Node:
        """Records the operation of a node with other arguments, whose metadata are those of the first; so is the result's."""
        pure = "pure" in node.meta
        must_run = not pure and self._does_more_than_compute(node.target)
        if not pure:
            self._refuse_to_fail()
            self.operations += 1
        made = another_node(self.graph, node, args, kwargs)
        made.meta.update(node.meta)
        made.meta[EXAMPLE] = example
        if modules:
            made.meta["nn_module_stack"] = modules
        if must_run:
            made.meta[MUST_RUN] = True
        return made

    def _check_wrappers(self, target: Any, arguments: Any) -> None:
        if self.world.fake_mode.met_wrapper and not self.traces_wrapper:
            self.wrappers.check(_target_name(target), map_arg(arguments, example_of))

    def _does_more_than_compute(self, target: Any) -> bool:
        """Whether an operator that ran on fakes since the last node was made drew random numbers, or may fail in the graph."""
        mode = self.world.fake_mode
        drew, self._draws = mode.draws > self._draws, mode.draws
        if self.seeded_at is not None and (drew or runs_other_code(target)):
            if self.chances.take():
                raise TraceAnew(seeds_inside=True)
            unsupported("random-state", name=f"What comes before {_target_name(target)}", break_step=self.seeded_at)
        return drew or mode.failing > self._failing

    def seed_after(self) -> None:
        """To be called when the output code will set torch's random state after the graph."""
        if self.seeded_at is None:
            self.seeded_at = self.recorder.break_step()

    def _refuse_to_fail(self) -> None:
        """Breaks the graph between a write to an input with a history and an operation that may fail. After a failure, inputs
        are restored and CPython runs the program up to the failing line, but a history cannot be restored from a copy."""
        mode = self.world.fake_mode
        if mode.failing > self._failing and self._written:
            for item in self.inputs.values():
                real = item.real
                if isinstance(item.fake, torch.Tensor) and real.requires_grad and not real.is_leaf:
                    if item.fake.untyped_storage()._cdata in self._written:
                        unsupported("change-before-failure", value=item.source.name)
        self._failing = mode.failing
        if len(mode.written_storages) != len(self._written):
            self._written = frozenset(mode.written_storages)

    def track(self, fake: Any, variable: VariableTracker) -> None:
        """From now on, operations that return this very fake tensor give `variable`."""
        self._tracked_fakes[id(fake)] = (fake, variable)

    def untrack(self, nodes: set[fx.Node]) -> None:
        """Forgets the variables of nodes that leave the graph."""
        gone = [key for key, (_, variable) in self._tracked_fakes.items() if getattr(variable, "node", None) in nodes]
        for key in gone:
            del self._tracked_fakes[key]

    def tracked(self, fake: Any) -> VariableTracker | None:
        found = self._tracked_fakes.get(id(fake))
        return None if found is None else found[1]

    # -- finishing -----------------------------------------------------------------------------------------------

    def remove_dead_nodes(self) -> None:
        """Drops unused nodes without side effects (size arithmetic, unpacking), and aliases that were recorded only to have
        another object, if nothing in the graph writes to the tensor."""
        for node in self.graph.nodes:
            if node.meta.get("another_object") and not _is_written(node) and not _is_written(node.args[0]):
                node.replace_all_uses_with(node.args[0])
        for node in reversed(self.graph.nodes):
            if not node.users and node.meta.get("pure"):
                self.graph.erase_node(node)

    def remove_unused_inputs(self) -> list[GraphInput]:
        """Removes unused inputs and returns the others: those that are used, and the symbols in the sizes of used tensors."""
        self.keep_inputs(self.world.fake_mode.written_in_nested)
        needed: set[Any] = set()
        kept = []
        symbol_of = {node: expr for expr, node in self._symbol_nodes.items() if node.op == "placeholder"}
        for item in self.inputs.values():
            if item.node not in symbol_of and item.node.users:
                needed.update(symbols_in(item.fake))
        for node in self.graph.nodes:
            if node.op != "placeholder" and EXAMPLE in node.meta:
                needed.update(symbols_in(node.meta[EXAMPLE]))
        for key, item in list(self.inputs.items()):
            if item.node.users or symbol_of.get(item.node) in needed or key in self._kept:
                kept.append(item)
            else:
                self.graph.erase_node(item.node)
                del self.inputs[key]
        order = {node: position for position, node in enumerate(self.graph.nodes)}
        return sorted(kept, key=lambda item: order[item.node])

    def keep_inputs(self, storages: list[int]) -> None:
        """Keeps the inputs with these storages, even if unused: the graph writes to them."""
        for source, item in self.inputs.items():
            if item.storage in storages:
                self._kept.add(source)

    def written_inputs(self) -> list[WrittenInput]:
        """The inputs that the graph writes to."""
        if not self.inputs:
            return []
        mode = self.world.fake_mode
        if self.runtime_asserts:  # a backend may check them last
            mode.note_may_fail()
        written = [item for item in self.inputs.values() if item.storage in mode.written_storages]
        return [
            WrittenInput(item, item.storage in mode.written_before_failing, item.storage in mode.launch_writes)
            for item in written
        ]

    def step_of_exposed_leaf(self, results: list[fx.Node], inputs: list[GraphInput]) -> int | None:
        """The step that made a leaf which a backend would not return as the program does; None if there is none."""
        return self.own_leaves.step_of_exposed(self.graph, [node.meta[EXAMPLE] for node in results], inputs, self.runs_as_written)

    @property
    def draws_random_numbers(self) -> bool:
        return self.world.fake_mode.drew_random_numbers

    def close(self) -> None:
        """Called when the graph is finished. Drops real values and the recorder."""
        self._recorder = None
        self.wrappers.forget()
        self.journal.clear()
        self.world.close()
        self.inputs.clear()
        self.memory = None
        self.own_leaves.clear()
        self.function_views.clear()
        self._tracked_fakes.clear()
        self.parts.clear()
        self._failure_in_dispatch = None

    def operation_count(self) -> int:
        return sum(node.op not in ("placeholder", "output") for node in self.graph.nodes)


def _is_written(node: fx.Node) -> bool:
    """Whether an operation of the graph may change the tensor."""
    if any(writes(user.target, user.kwargs) for user in node.users):
        return True
    return any(user.meta.get("another_object") and _is_written(user) for user in node.users)


def example_of(node: fx.Node) -> Any:
    return node.meta[EXAMPLE]


def plain_bool(node: fx.Node) -> fx.Node | bool:
    """What an operator is given that takes no symbolic bool: the value in this call, with a guard."""
    example = node.meta.get(EXAMPLE)
    return bool(example) if isinstance(example, torch.SymBool) and example.node.has_hint() else node


_NO_NAME = re.compile(r"[^0-9a-zA-Z]+")


def input_name(source: Source) -> str:
    """`L['self'].layers[0].weight` -> `l_self_layers_0_weight_`"""
    name = _NO_NAME.sub("_", source.name).lower()
    return name if name[:1].isalpha() else f"g_{name.lstrip('_')}"


def _target_name(target: object) -> str:
    return target if isinstance(target, str) else getattr(target, "__name__", repr(target))
