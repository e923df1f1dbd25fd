"""Converts a graph and its inputs for torch's compilers, which need torch's own ShapeEnv and fake mode.

Only this module uses torch's ShapeEnv. Each compile gets a fresh one, with one symbol for each symbol of the tracer and with
the facts that are known of them. The inputs are rebuilt under its fake mode. Decisions that the compiler then makes on sizes
are recorded in the tracer's ShapeEnv, and so become guards of the frame.
"""

from __future__ import annotations

import dataclasses
import itertools
import logging
import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import sympy
import torch
from torch import fx
from torch._guards import GuardSource, Source, TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, free_unbacked_symbols
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._sympy.numbers import int_oo

from shapes.env import ShapeEnv as OwnShapeEnv
from shapes.guards import Why
from shapes.ranges import INF, Range
from shapes.symbols import Kind, Symbol
from tracer import config
from tracer.backends.attempts import FLAT, Attempt
from tracer.backends.backward_passes import BackwardPasses
from tracer.backends.float_decisions import FloatDecisions
from tracer.backends.float_inputs import FloatInTensor, refuse_fixed
from tracer.backends.kept_operations import keep_operations, refuse_to_drop
from tracer.backends.nested_inputs import NestedInputs
from tracer.backends.outlining import outlined
from tracer.backends.overlapping_inputs import as_views_of_nothing
from tracer.backends.rebuilt_tensors import allocate, with_autograd_state, with_conj_and_neg_bits
from tracer.backends.recording_calls import begin_with_gradients_on, called_with_gradients_on
from tracer.backends.repeated_blocks import AS_WRITTEN
from tracer.backends.result_gradients import restore_autograd_state
from tracer.backends.result_memory import take_out_views
from tracer.backends.runtime_checks import return_checked_values
from tracer.backends.view_strides import (
    prepare_written_views,
    refuse_strided_draws,
    reshape_for_view,
)
from tracer.backends.wrapper_instances import instance_of, overrides_for
from tracer.backends.wrapper_results import take_wrappers_apart
from tracer.graph.fakes.flattened import tensors_inside
from tracer.graph.fakes.nested_fakes import is_nested
from tracer.graph.fakes.wrapper_fakes import WrapperFake
from tracer.graph.graph_module import copy_of, with_graph
from tracer.graph.operations.gradients import keep_for_gradients
from tracer.graph.output_graph import EXAMPLE
from tracer.graph.symbols.ragged import ragged_of
from tracer.graph.symbols.torch_sympy import clauses, to_torch_sympy
from tracer.locations import levels_to_the_user
from tracer.operators.compiler_layouts import with_layouts
from tracer.operators.proxies import SYM_TYPES
from tracer.operators.sparse_rules import static_fake
from tracer.operators.written_lists import write_results_of_functional_operators

log = logging.getLogger("tracer")
Compiler = Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]


class ContradictedDecision(AssertionError):
    """A compiler took something for granted that does not hold for the inputs. torch's pass that turns arithmetic of floats into
    tensors does so with a float divided by a number read off data."""


def compile_real(compiler: Compiler, gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Runs a compiler on a copy of a captured graph and the program's own values."""
    graph = copy_of(gm.graph)
    checked = return_checked_values(graph)
    return checked(compiler(with_graph(gm, graph), example_inputs))


def compile_with(
    compiler: Compiler, gm: fx.GraphModule, example_inputs: list[Any], repeated: str = FLAT, unrolls: bool = False
) -> Callable[..., Any]:
    """Runs a compiler on a copy of a captured graph; guards that it adds become guards of the tracer's env. `repeated` and
    `unrolls` as for `outlining.outlined`. Called again by a backend that passes its own arguments on, it converts nothing."""
    if _is_bridged(gm, example_inputs):
        return compiler(gm, example_inputs)
    if _computes_numbers_alone(gm.graph):  # there is nothing to compile, and torch's passes fail on some of it
        found: Callable[..., Any] = gm.forward
        return found
    attempt = Attempt(repeated, unrolls)
    while True:
        try:
            with torch.set_grad_enabled(torch.is_grad_enabled()):  # an attempt that fails may be within `no_grad` of the graph
                return _compile_bridged(compiler, gm, example_inputs, attempt)
        except Exception as error:
            if not attempt.has_next(error, gm.graph, example_inputs):
                return _run_as_written(gm, error)


def _computes_numbers_alone(graph: fx.Graph) -> bool:
    """Whether all that a graph does is Python's arithmetic, on numbers that are inputs or are read from tensors."""
    computed = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
    return all(isinstance(node.meta.get(EXAMPLE), (int, float, *SYM_TYPES)) for node in computed)


def _run_as_written(gm: fx.GraphModule, error: Exception) -> Callable[..., Any]:
    """The graph itself, if a compiler cannot compile it correctly: it computes the same, only slower."""
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    text = f"A graph of {len(gm.graph.nodes)} nodes runs as it is, without the backend, which cannot compile it: {reason}"
    if config.convert_every_frame:  # a warning could change what the tested program does
        log.debug(text)
    else:
        warnings.warn(text, stacklevel=levels_to_the_user())
    found: Callable[..., Any] = gm.forward
    return found


def on_torch_values(rewrite: Callable[[fx.GraphModule, list[Any]], Any], gm: fx.GraphModule, example_inputs: list[Any]) -> Any:
    """The result of `rewrite`, called under torch's fake mode with a copy of a captured graph and its example inputs."""

    def under_fake_mode(gm: fx.GraphModule, inputs: list[Any]) -> Any:
        with TracingContext.get().fake_mode:
            return rewrite(gm, inputs)

    return _on_torch_values(under_fake_mode, with_graph(gm, copy_of(gm.graph)), example_inputs)


def _on_torch_values(use: Callable[[fx.GraphModule, list[Any]], Any], gm: fx.GraphModule, example_inputs: list[Any]) -> Any:
    """Calls `use` with the graph and its inputs converted to torch's mode; records the decisions that it makes on sizes.
    Inference mode is off: in it, AOTAutograd takes a view of a parameter for a tensor that requires no gradient."""
    enabled, overrides = torch.is_grad_enabled(), overrides_for(gm.graph)
    with torch.inference_mode(False), torch.set_grad_enabled(enabled):
        bridge = Bridge(example_inputs)
        inputs = bridge.inputs()
        bridge.convert_nodes(gm.graph, inputs)
        with tracing(TracingContext(bridge.mode)) as context, overrides:
            result = use(gm, inputs)
    if getattr(context.fw_metadata, "bw_donated_idxs", []) is None:  # torch takes None for some, and refuses `retain_graph=True`
        context.fw_metadata.bw_donated_idxs = []
    bridge.record_decisions()
    return result


def _compile_bridged(compiler: Compiler, gm: fx.GraphModule, example_inputs: list[Any], attempt: Attempt) -> Callable[..., Any]:
    refuse_to_drop(gm)
    refuse_strided_draws(gm.graph)
    passes = BackwardPasses(gm.graph)
    graph = copy_of(gm.graph)
    if attempt.views_are_copies:
        reshape_for_view(graph)
    corrected = restore_autograd_state(graph, attempt.checks_each_result)
    switched_on = begin_with_gradients_on(graph)
    with_views = take_out_views(graph)
    example_inputs, put_together = take_wrappers_apart(graph, example_inputs)
    prepare_written_views(graph)
    keep_for_gradients(graph)
    kept = keep_operations(graph)
    checked = return_checked_values(graph)
    example_inputs, computed = attempt.floats(graph, example_inputs)
    write_results_of_functional_operators(graph, left_by=AS_WRITTEN)
    compiler = outlined(compiler, graph, attempt.repeated, attempt.unrolls)
    with passes.compiling(), torch.set_grad_enabled(switched_on or torch.is_grad_enabled()):
        compiled = as_views_of_nothing(graph)(_on_torch_values(compiler, with_graph(gm, graph), example_inputs))
    compiled = passes.around(corrected(with_views(put_together(kept(checked(computed(compiled)))))))
    return called_with_gradients_on(compiled) if switched_on else compiled


def _is_bridged(gm: fx.GraphModule, example_inputs: list[Any]) -> bool:
    """Whether the values of a graph belong to the bridge that is active already."""
    context = TracingContext.try_get()
    if context is None or context.fake_mode is None or not isinstance(context.fake_mode.shape_env, BridgeShapeEnv):
        return False
    examples = [node.meta[EXAMPLE] for node in gm.graph.nodes if EXAMPLE in node.meta]
    envs = {id(env) for env in map(_shape_env_of, (*example_inputs, *examples)) if env is not None}
    return envs <= {id(context.fake_mode.shape_env)}


def _shape_env_of(value: Any) -> Any:
    if isinstance(value, FakeTensor):
        return value.fake_mode.shape_env
    return value.node.shape_env if isinstance(value, SYM_TYPES) else None


@dataclasses.dataclass(frozen=True)
class SymbolSource(Source):
    """The source that torch has for a symbol: the symbol of the same name in the tracer's env."""

    label: str

    @property
    def _name_template(self) -> str:
        return self.label

    @property
    def guard_source(self) -> GuardSource:
        return GuardSource.CONSTANT


class BridgeShapeEnv(ShapeEnv):
    """torch's ShapeEnv, with the tracer's names of symbols, decisions on floats that are inputs, and errors for late ones."""

    __slots__ = ("float_decisions",)  # not in `__dict__`, which GraphPickler writes to files
    float_decisions: FloatDecisions

    def evaluate_expr(self, orig_expr: Any, *args: Any, **kwargs: Any) -> Any:
        decided = None if self.frozen else self.float_decisions.decide(orig_expr)
        return super().evaluate_expr(orig_expr, *args, **kwargs) if decided is None else decided

    def _generate_unique_id(self, source_name: str) -> int:
        named = re.fullmatch("[a-z]+([0-9]+)", source_name)
        if named is None or int(named[1]) in self.unique_ids:  # a symbol that the compiler makes for itself
            number: int = super()._generate_unique_id(source_name)
            return number
        self.unique_ids.add(int(named[1]))
        return int(named[1])

    def _check_frozen(self, expr: Any, concrete_val: Any) -> None:
        """Raises for a decision after the compile: torch would ignore it, and the graph would be wrong for other sizes."""
        if self.frozen:
            raise RuntimeError(
                f"the backend relies on {expr} being {concrete_val} after it returned, when no guard can be added. "
                "It has to decide on sizes before it returns its callable."
            )
        super()._check_frozen(expr, concrete_val)


# AOTAutograd notes by name, for the whole process, which floats it needs the value of, and takes those of the name for constants
# from then on. So no two compiles have a float of one name. Sizes have small numbers.
_numbers = itertools.count(10_000)

# These caches of PyTorch have ShapeEnvs in their keys, and so would keep them alive.
_REMEMBERED_QUESTIONS = [method for method in vars(ShapeEnv).values() if hasattr(method, "cache_clear")]


class Bridge:
    """One compile's torch ShapeEnv and fake mode, and the way between its symbols and the tracer's."""

    def __init__(self, own_inputs: list[Any]) -> None:
        self.own_inputs = own_inputs
        self.own_env = _own_env(own_inputs)
        self.shape_env = BridgeShapeEnv(
            specialize_zero_one=True, duck_shape=False, allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True
        )
        self.mode = with_layouts(FakeTensorMode(shape_env=self.shape_env))
        self.torch_symbols: dict[Any, sympy.Basic] = {}  # the tracer's symbol, or a float expression -> torch's symbol or value
        self.nested = NestedInputs(self.mode, self.torch_number)
        self._storages: dict[int, torch.Tensor] = {}  # storage in the trace -> the first tensor of torch's mode made for it
        self._describing: dict[Any, Any] = {}  # numbers of ours -> torch's, where they only describe
        self.shape_env.float_decisions = self._float_decisions = FloatDecisions(self.own_env, self.torch_symbols)
        if self.own_env is not None:
            self._add_symbols(self.own_env)
            self._replay_facts(self.own_env)
        self._known_guards = len(self.shape_env.guards)

    # -- from the tracer's values to torch's ---------------------------------------------------------------------

    def inputs(self) -> list[Any]:
        """The example inputs, rebuilt under torch's fake mode; those that shared a storage share one again."""
        known = (value for value in self.own_inputs if not isinstance(value, FloatInTensor) or value.known)
        for value in map(_number_in, known):
            if isinstance(value, (torch.SymInt, torch.SymFloat)) and not (
                value.node.expr in self.torch_symbols or value.node.expr.is_Integer
            ):
                node = value.node  # of a float, or a number that is computed before the graph is called
                bounds = None if node.is_float() else node.shape_env.env.bounds(node.value)
                self.torch_symbols[node.expr] = self._new_symbol(f"number{next(_numbers)}", node.hint, bounds)
        return [self._torch_value(value) for value in self.own_inputs]

    def convert_nodes(self, graph: fx.Graph, inputs: list[Any]) -> None:
        """Replaces the fake values of the nodes of a graph by values of torch's mode."""
        if self.own_env is None:
            self.own_env = _own_env(pytree.tree_leaves([node.meta.get(EXAMPLE) for node in graph.nodes]))
        self._add_symbols_of_the_graph()
        rebuilt = {id(own): theirs for own, theirs in zip(self.own_inputs, inputs, strict=True)}
        with self.shape_env.suppress_guards(), torch.no_grad():
            for node in graph.nodes:
                if EXAMPLE in node.meta:
                    own = node.meta[EXAMPLE]
                    node.meta[EXAMPLE] = rebuilt[id(own)] if id(own) in rebuilt else pytree.tree_map(self._describing_value, own)

    def torch_number(self, value: Any) -> Any:
        """torch's symbolic number for one of the tracer's; plain numbers stay as they are."""
        if not isinstance(value, SYM_TYPES):
            return value
        ragged = ragged_of(value)
        if ragged is not None:
            return self.nested.size(ragged)
        own, hint = value.node.expr, value.node.hint
        expr = self.torch_symbols[own] if own in self.torch_symbols else to_torch_sympy(own, self.torch_symbols)
        if free_unbacked_symbols(expr):
            hint = None
        if isinstance(value, torch.SymBool):
            return self.shape_env.create_symboolnode(expr)
        if isinstance(value, torch.SymFloat):
            return self.shape_env.create_symfloatnode(expr, hint=hint)
        return self.shape_env.create_symintnode(expr, hint=hint)

    def _add_symbols(self, env: OwnShapeEnv) -> None:
        for symbol in env.symbols():
            if symbol.backed and not symbol.kind.is_float:  # floats are added when they are inputs
                self.torch_symbols[symbol.sympy] = self._torch_symbol(env, symbol)
            elif symbol.label is not None and not symbol.kind.is_float:  # an input; others are made by the graph itself
                self.torch_symbols[symbol.sympy] = self.shape_env.create_unbacked_symint().node.expr
                self._constrain(self.torch_symbols[symbol.sympy], env.bounds(symbol.expr))
        self._tell_hints(env)

    def _tell_hints(self, env: OwnShapeEnv) -> None:
        told = {self.torch_symbols.get(symbol.sympy): hint for symbol, hint in env.hints_for_compilers.items()}
        self.shape_env.var_to_hint_override.update({theirs: hint for theirs, hint in told.items() if theirs is not None})

    def _add_symbols_of_the_graph(self) -> None:
        """Adds the symbols of numbers that are computed in the graph from data. A compiler that retraces it makes its own."""
        with self.shape_env.ignore_fresh_unbacked_symbols():
            env = self.own_env
            if env is None:
                return
            for symbol in [each for each in env.symbols() if each.sympy not in self.torch_symbols]:
                of_float = symbol.kind.is_float
                make = self.shape_env.create_unbacked_symfloat if of_float else self.shape_env.create_unbacked_symint
                self.torch_symbols[symbol.sympy] = make().node.expr
                if not of_float:
                    self._constrain(self.torch_symbols[symbol.sympy], env.bounds(symbol.expr))
            self._tell_hints(env)

    def _torch_symbol(self, env: OwnShapeEnv, symbol: Symbol) -> sympy.Basic:
        """torch's symbol for one of the tracer's. The size of an empty dim is the constant 0: torch's results are wrong with a
        symbol for it."""
        if symbol.kind is Kind.SIZE and symbol.hint == 0:
            _record_decision(env, sympy.Eq(symbol.sympy, 0))
            return sympy.Integer(0)
        return self._new_symbol(symbol.name, symbol.hint, env.bounds(symbol.expr))

    def _new_symbol(self, name: str, hint: Any, bounds: Range | None) -> sympy.Symbol:
        source = SymbolSource(name)
        if bounds is None:
            return self.shape_env.create_unspecified_symbol(hint, source, DimDynamic.DYNAMIC)
        low, high = bounds
        about: dict[str, Any] = {"positive": True if low >= 0 else None, "do_not_specialize_zero_one": low < 2}
        theirs = self.shape_env.create_symbol(hint, source, DimDynamic.DYNAMIC, **about)
        self._constrain(theirs, (low, high))
        return theirs

    def _constrain(self, theirs: sympy.Symbol, bounds: Range) -> None:
        low, high = bounds
        self.shape_env.constrain_symbol_range(
            theirs,
            compiler_min=-int_oo if low == -INF else int(low),
            compiler_max=int_oo if high == INF else int(high),
        )

    def _replay_facts(self, env: OwnShapeEnv) -> None:
        """Adds the existing guards to torch's ShapeEnv, so that it uses them and does not add them again."""
        for guard in env.guards:
            expr = to_torch_sympy(guard.sympy, self.torch_symbols)
            if isinstance(expr, sympy.Basic) and expr.free_symbols <= set(self.torch_symbols.values()):
                for clause in clauses(expr):
                    self.shape_env.evaluate_expr(clause)

    def _torch_value(self, value: Any) -> Any:
        if isinstance(value, SYM_TYPES):
            return self.torch_number(value)
        if isinstance(value, FloatInTensor):
            with self.mode:
                tensor: Any = torch.empty((), dtype=torch.float64)
            if value.known:
                tensor.item_memo = self.torch_number(value.number)
            else:
                self._float_decisions.add(tensor, value.number.node.expr)
            return tensor
        if isinstance(value, WrapperFake):
            return instance_of(value, self._torch_value)
        return self.nested.keeping_size(value, self._torch_tensor(value)) if isinstance(value, torch.Tensor) else value

    def _torch_tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor of torch's mode with the same metadata. Tensors that share a storage share one again."""
        if is_nested(tensor):
            return with_autograd_state(self.nested.rebuilt(tensor, self._torch_tensor), tensor)
        if tensor.layout != torch.strided or tensor.is_nested or is_traceable_wrapper_subclass(tensor):
            return static_fake(self.mode, tensor)
        storages, key = self._storages, tensor.untyped_storage()._cdata
        geometry = (
            list(map(self.torch_number, tensor.size())),
            list(map(self.torch_number, tensor.stride())),
            self.torch_number(tensor.storage_offset()),
        )
        with self.mode, torch.enable_grad():
            if isinstance(tensor, FakeTensor) and key in getattr(tensor.fake_mode, "shared_storages", ()):
                return with_conj_and_neg_bits(self._overlapping_input(tensor, key, *geometry), tensor)
            if tensor._is_view() and tensor._base is not None and key not in storages:
                self._torch_tensor(tensor._base)
            if key not in storages:
                fresh = allocate(tensor, *geometry, tensor.device)
                storages[key] = fake = with_autograd_state(fresh, tensor)
            elif tensor._is_view() and tensor.dtype == storages[key].dtype:
                fake = storages[key].as_strided(*geometry)
            else:
                sizes, strides, offset = geometry
                fake = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
                fake = with_autograd_state(fake.set_(storages[key].untyped_storage(), offset, sizes, strides), tensor)
            return with_conj_and_neg_bits(fake, tensor)

    def _overlapping_input(self, tensor: FakeTensor, key: int, sizes: list[Any], strides: list[Any], offset: Any) -> torch.Tensor:
        """For an input whose memory overlaps another one's. They share a storage only if one of them is written to: otherwise
        sharing has no effect, and AOTAutograd could take an output that is a view of one for a view of the other."""
        own_mode: Any = tensor.fake_mode
        if key not in own_mode.written_storages:
            fake = with_autograd_state(allocate(tensor, sizes, strides, offset, tensor.device), tensor)
            self._storages.setdefault(key, fake)
            return fake
        if key not in self._storages:  # of the right size, which AOTAutograd reads
            nbytes = own_mode.shared_storages[key]
            self._storages[key] = torch.empty(nbytes, dtype=torch.uint8, device=tensor.device)
        fake = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return with_autograd_state(fake.set_(self._storages[key].untyped_storage(), offset, sizes, strides), tensor)

    def _describing_value(self, value: Any) -> Any:
        """A value of torch's mode with the same metadata, for the `meta` of a node. Nothing is computed with it."""
        if isinstance(value, SYM_TYPES):
            known = self._describing.get(value.node)
            if known is None:
                known = self._describing[value.node] = self.torch_number(value)
            return known
        if not isinstance(value, torch.Tensor) or isinstance(value, WrapperFake):  # the graph makes the wrapper, and its parts
            return None if isinstance(value, WrapperFake) else value
        if is_nested(value):
            return self.nested.rebuilt(value, self._describing_value)
        if value.layout != torch.strided or value.is_nested or is_traceable_wrapper_subclass(value):
            return static_fake(self.mode, value)
        sizes, strides = ([self._describing_value(number) for number in numbers] for numbers in (value.size(), value.stride()))
        key, offset = value.untyped_storage()._cdata, self._describing_value(value.storage_offset())
        if key in self._storages:
            meta = torch.empty(0, dtype=value.dtype, device="meta")
            meta.set_(self._storages[key].untyped_storage(), offset, sizes, strides)
        else:
            meta = self._storages[key] = allocate(value, sizes, strides, offset, "meta")
        fake = FakeTensor(self.mode, meta, value.device)
        return fake.requires_grad_() if value.requires_grad else fake

    # -- from torch's decisions to the tracer's guards -----------------------------------------------------------

    def record_decisions(self) -> None:
        """After the compile: the compiler's decisions on sizes become guards of the frame, unless they are known anyway."""
        self.shape_env.freeze()
        for question in _REMEMBERED_QUESTIONS:
            question.cache_clear()
        if self.own_env is not None:
            ours = {theirs: own for own, theirs in self.torch_symbols.items()}
            floats = [each for each in self.own_inputs if isinstance(each, FloatInTensor) and not each.may_be_fixed]
            made = [guard.expr for guard in self.shape_env.guards[self._known_guards :]]
            refuse_fixed(made, {self.torch_symbols.get(each.number.node.expr) for each in floats})
            for condition in made:
                if condition.free_symbols <= ours.keys():
                    _record_decision(self.own_env, condition.xreplace(ours))
            for condition in self._float_decisions.made:
                _record_decision(self.own_env, condition)


def _record_decision(env: OwnShapeEnv, expr: sympy.Basic) -> None:
    condition = env.boolean(expr)
    known = env.statically_known(condition)
    if known is False or env.hint_of(condition) is False:
        raise ContradictedDecision(f"the compiler relied on {expr}, which the example inputs contradict")
    if known is None:
        env.record(condition, Why.BACKEND)


def _own_env(values: Iterable[Any]) -> OwnShapeEnv | None:
    """The tracer's env, found through any symbolic number among the inputs; None where all are static."""
    for value in map(_number_in, values):
        tensors = (value, *tensors_inside(value)) if isinstance(value, torch.Tensor) else ()
        numbers = [number for each in tensors for number in (*each.size(), *_layout_numbers(each))] if tensors else [value]
        for number in numbers:
            if isinstance(number, SYM_TYPES):
                found: OwnShapeEnv | None = number.node.shape_env.env
                return found
    return None


def _number_in(value: Any) -> Any:
    return value.number if isinstance(value, FloatInTensor) else value


def _layout_numbers(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (*tensor.stride(), tensor.storage_offset()) if tensor.layout == torch.strided else ()
