"""What backends are given: the graph and its inputs over a ShapeEnv and a fake mode of torch's own.

The only file that touches torch's ShapeEnv. A compile gets a fresh one, with one symbol for each of the tracer's and
the facts that hold so far; the inputs are rebuilt under its fake mode; what the compiler then decided on sizes is
recorded in the tracer's env, and thereby becomes guards of the frame.
"""

from __future__ import annotations

import dataclasses
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
from tracer.backends.float_inputs import FloatInTensor, floats_as_constants, floats_as_tensors
from tracer.backends.inference import is_about_inference
from tracer.backends.result_gradients import as_written, is_about_changes, is_the_programs_own
from tracer.backends.runtime_checks import return_checked_values
from tracer.backends.views import (
    LaidOutWrong,
    is_about_views,
    mark_written_views,
    reshape_for_view,
    views_may_be_copies,
)
from tracer.graph.fakes.fake_tensors import mark_as_parameter
from tracer.graph.graph_module import copy_of, with_graph
from tracer.graph.operations.gradients import keep_for_gradients
from tracer.graph.output_graph import EXAMPLE
from tracer.graph.symbols.torch_sympy import to_torch_sympy
from tracer.locations import levels_to_the_user
from tracer.operators.compiler_layouts import with_layouts
from tracer.operators.proxies import SYM_TYPES
from tracer.operators.written_lists import write_results_of_functional_operators

log = logging.getLogger("tracer")
_RUN_AS_WRITTEN = (is_about_views, is_about_inference, is_the_programs_own, lambda error: isinstance(error, LaidOutWrong))
_FLOATS_NEEDED = "TensorifyScalarRestartAnalysis"  # AOTAutograd's error where an operation needs the value of a float

Compiler = Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]


def compile_real(compiler: Compiler, gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Runs a compiler on a copy of a captured graph and the program's own values."""
    graph = copy_of(gm.graph)
    checked = return_checked_values(graph)
    return checked(compiler(with_graph(gm, graph), example_inputs))


def compile_with(compiler: Compiler, gm: fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
    """Runs a compiler on a copy of a captured graph; guards that it adds become guards of the tracer's env.

    A backend that hands on to another what it was given itself is inside of a bridge already.
    """
    if _is_bridged(gm, example_inputs):
        return compiler(gm, example_inputs)
    floats, look_closely, copies = floats_as_tensors, False, False
    while True:
        try:
            return _compile_bridged(compiler, gm, example_inputs, floats, look_closely, copies)
        except Exception as error:
            if type(error).__name__ == _FLOATS_NEEDED and floats is not floats_as_constants:
                floats = floats_as_constants
            elif is_about_changes(error) and not look_closely:
                look_closely = True
            elif is_about_views(error) and not copies and views_may_be_copies(gm.graph):
                copies = True
            elif any(is_known(error) for is_known in _RUN_AS_WRITTEN):
                return _run_as_written(gm, error)
            else:
                raise


def _run_as_written(gm: fx.GraphModule, error: Exception) -> Callable[..., Any]:
    """The graph itself, where a compiler cannot take what is right: it computes the same, only slower."""
    reason = str(error).strip().partition("\n")[0]
    text = f"A graph of {len(gm.graph.nodes)} nodes runs as it is, without the backend, which cannot compile it: {reason}"
    if config.convert_every_frame:  # the program under trial is not to be shown a warning of ours
        log.debug(text)
    else:
        warnings.warn(text, stacklevel=levels_to_the_user())
    found: Callable[..., Any] = gm.forward
    return found


def on_torch_values(rewrite: Callable[[fx.GraphModule, list[Any]], Any], gm: fx.GraphModule, example_inputs: list[Any]) -> Any:
    """What `rewrite` makes, under torch's fake mode, of a copy of a captured graph with its very inputs and outputs."""

    def under_fake_mode(gm: fx.GraphModule, inputs: list[Any]) -> Any:
        with TracingContext.get().fake_mode:
            return rewrite(gm, inputs)

    return _on_torch_values(under_fake_mode, with_graph(gm, copy_of(gm.graph)), example_inputs)


def _on_torch_values(use: Callable[[fx.GraphModule, list[Any]], Any], gm: fx.GraphModule, example_inputs: list[Any]) -> Any:
    """Calls `use` with the graph and inputs retold as values of torch's; what it decides on sizes is recorded."""
    bridge = Bridge(example_inputs)
    inputs = bridge.inputs()
    bridge.retell(gm.graph, inputs)
    with tracing(TracingContext(bridge.mode)):
        result = use(gm, inputs)
    bridge.close()
    return result


def _compile_bridged(
    compiler: Compiler,
    gm: fx.GraphModule,
    example_inputs: list[Any],
    floats: Callable[..., Any],
    look_closely: bool,
    copies: bool,
) -> Callable[..., Any]:
    graph = copy_of(gm.graph)
    mark_written_views(graph)
    if copies:
        reshape_for_view(graph)
    corrected = as_written(graph, look_closely)
    keep_for_gradients(graph)
    checked = return_checked_values(graph)
    example_inputs, computed = floats(graph, example_inputs)
    write_results_of_functional_operators(graph)
    return corrected(computed(checked(_on_torch_values(compiler, with_graph(gm, graph), example_inputs))))


def _is_bridged(gm: fx.GraphModule, example_inputs: list[Any]) -> bool:
    """Whether the values of a graph are those of the bridge that is at work."""
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
    """Where torch is told that a symbol comes from: the symbol of the same name in the tracer's env."""

    label: str

    @property
    def _name_template(self) -> str:
        return self.label

    @property
    def guard_source(self) -> GuardSource:
        return GuardSource.CONSTANT


class BridgeShapeEnv(ShapeEnv):
    """torch's, with the symbols named as the tracer's are, and no decision lost."""

    def _generate_unique_id(self, source_name: str) -> int:
        named = re.fullmatch("[a-z]+([0-9]+)", source_name)
        if named is None or int(named[1]) in self.unique_ids:  # a symbol that the compiler makes for itself
            number: int = super()._generate_unique_id(source_name)
            return number
        self.unique_ids.add(int(named[1]))
        return int(named[1])

    def _check_frozen(self, expr: Any, concrete_val: Any) -> None:
        """torch ignores what is decided on sizes when a graph is in use already; it would be a wrong result elsewhere."""
        if self.frozen:
            raise RuntimeError(
                f"the backend relies on {expr} being {concrete_val} after it returned, when no guard can be added. "
                "It has to decide on sizes before it returns its callable."
            )
        super()._check_frozen(expr, concrete_val)


# PyTorch remembers what each ShapeEnv answered, and thereby keeps the ShapeEnv.
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
        self.theirs: dict[Any, sympy.Basic] = {}  # symbol of ours, or a float computed of them -> torch's symbol, or its value
        self._storages: dict[int, torch.Tensor] = {}  # storage of ours -> the first tensor of torch's mode that has its own
        self._shadows: dict[Any, Any] = {}  # numbers of ours -> torch's, where they only describe
        if self.own_env is not None:
            self._add_symbols(self.own_env)
            self._replay_facts(self.own_env)
        self._known_guards = len(self.shape_env.guards)

    # -- ours to torch's -----------------------------------------------------------------------------------------

    def inputs(self) -> list[Any]:
        """The example inputs, rebuilt under torch's fake mode; those that shared a storage share one again."""
        for value in map(_plain, self.own_inputs):
            if isinstance(value, (torch.SymInt, torch.SymFloat)) and not (
                value.node.expr in self.theirs or value.node.expr.is_Integer
            ):
                self._add_number(value.node)  # a float, or what is computed before the graph is called
        return [self._value(value) for value in self.own_inputs]

    def retell(self, graph: fx.Graph, inputs: list[Any]) -> None:
        """Writes the values that the nodes of a graph had in the trace anew, as values of torch's mode."""
        if self.own_env is None:
            self.own_env = _own_env(pytree.tree_leaves([node.meta.get(EXAMPLE) for node in graph.nodes]))
        self._add_symbols_of_the_graph()
        rebuilt = {id(own): theirs for own, theirs in zip(self.own_inputs, inputs, strict=True)}
        with self.shape_env.suppress_guards(), torch.no_grad():
            for node in graph.nodes:
                if EXAMPLE in node.meta:
                    own = node.meta[EXAMPLE]
                    node.meta[EXAMPLE] = rebuilt[id(own)] if id(own) in rebuilt else pytree.tree_map(self._shadow, own)

    def number(self, value: Any) -> Any:
        """An int or float, or torch's symbolic number for one of ours."""
        if not isinstance(value, SYM_TYPES):
            return value
        own, hint = value.node.expr, value.node.hint
        expr = self.theirs[own] if own in self.theirs else to_torch_sympy(own, self.theirs)
        if free_unbacked_symbols(expr):
            hint = None
        if isinstance(value, torch.SymBool):
            return self.shape_env.create_symboolnode(expr)
        if isinstance(value, torch.SymFloat):
            return self.shape_env.create_symfloatnode(expr, hint=hint)
        return self.shape_env.create_symintnode(expr, hint=hint)

    def _add_symbols(self, env: OwnShapeEnv) -> None:
        for symbol in env.symbols():
            if symbol.backed and not symbol.kind.is_float:  # floats only where a graph is given them
                self.theirs[symbol.sympy] = self._of_symbol(env, symbol)
            elif symbol.label is not None and not symbol.kind.is_float:  # an input; others are made by the graph itself
                self.theirs[symbol.sympy] = self.shape_env.create_unbacked_symint().node.expr
                self._constrain(self.theirs[symbol.sympy], env.bounds(symbol.expr))

    def _add_symbols_of_the_graph(self) -> None:
        """What depends on data computed in the graph. A compiler that runs the graph anew makes symbols of its own."""
        with self.shape_env.ignore_fresh_unbacked_symbols():
            env = self.own_env
            if env is None:
                return
            for symbol in env.symbols():
                if symbol.sympy in self.theirs:
                    continue
                if symbol.kind.is_float:
                    self.theirs[symbol.sympy] = self.shape_env.create_unbacked_symfloat().node.expr
                else:
                    self.theirs[symbol.sympy] = self.shape_env.create_unbacked_symint().node.expr
                    self._constrain(self.theirs[symbol.sympy], env.bounds(symbol.expr))

    def _of_symbol(self, env: OwnShapeEnv, symbol: Symbol) -> sympy.Basic:
        """A symbol of torch's; the size of an empty dim is 0, since torch computes wrong with symbols for such sizes."""
        if symbol.kind is Kind.SIZE and symbol.hint == 0:
            _adopt(env, sympy.Eq(symbol.sympy, 0))
            return sympy.Integer(0)
        return self._new_symbol(symbol.name, symbol.hint, env.bounds(symbol.expr))

    def _add_number(self, node: Any) -> None:
        bounds = None if node.is_float() else node.shape_env.env.bounds(node.value)
        self.theirs[node.expr] = self._new_symbol(f"number_{len(self.theirs)}", node.hint, bounds)

    def _new_symbol(self, name: str, hint: Any, bounds: Range | None) -> sympy.Symbol:
        source = SymbolSource(name)
        if bounds is None:
            return self.shape_env.create_unspecified_symbol(hint, source, DimDynamic.DYNAMIC)
        low, high = bounds
        theirs = self.shape_env.create_symbol(
            hint,
            source,
            DimDynamic.DYNAMIC,
            positive=True if low >= 0 else None,
            do_not_specialize_zero_one=low < 2,
        )
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
        """Tells torch what is guarded already, so that it may use it and does not ask again."""
        for guard in env.guards:
            expr = to_torch_sympy(guard.sympy, self.theirs)
            if isinstance(expr, sympy.Basic) and expr.free_symbols <= set(self.theirs.values()):
                self.shape_env.evaluate_expr(expr)

    def _value(self, value: Any) -> Any:
        if isinstance(value, SYM_TYPES):
            return self.number(value)
        if isinstance(value, FloatInTensor):
            with self.mode:
                tensor: Any = torch.empty((), dtype=torch.float64)
            tensor.item_memo = self.number(value.number)
            return tensor
        return self._tensor(value) if isinstance(value, torch.Tensor) else value

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor of the compiler's mode with the same metadata, over the same storage as those that share one."""
        if tensor.layout != torch.strided or tensor.is_nested or is_traceable_wrapper_subclass(tensor):
            return self.mode.from_tensor(tensor, static_shapes=True)
        storages, key = self._storages, tensor.untyped_storage()._cdata
        geometry = self._numbers(tensor.size()), self._numbers(tensor.stride()), self.number(tensor.storage_offset())
        with self.mode, torch.enable_grad():
            if isinstance(tensor, FakeTensor) and key in getattr(tensor.fake_mode, "shared_storages", ()):
                return _with_bits(self._one_of_several(tensor, key, *geometry), tensor)
            if tensor._is_view() and tensor._base is not None and key not in storages:
                self._tensor(tensor._base)
            if key not in storages:
                fresh = _allocated(tensor, *geometry, tensor.device)
                storages[key] = fake = _with_autograd_state(fresh, tensor)
            elif tensor._is_view() and tensor.dtype == storages[key].dtype:
                fake = storages[key].as_strided(*geometry)
            else:
                sizes, strides, offset = geometry
                fake = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
                fake = _with_autograd_state(fake.set_(storages[key].untyped_storage(), offset, sizes, strides), tensor)
            return _with_bits(fake, tensor)

    def _one_of_several(self, tensor: FakeTensor, key: int, sizes: list[Any], strides: list[Any], offset: Any) -> torch.Tensor:
        """Inputs that overlap share a storage if one of them is written to. If not, it tells nobody anything, and
        AOTAutograd would take one for another when an output is a view of it."""
        own_mode: Any = tensor.fake_mode
        if key not in own_mode.written_storages:
            fake = _with_autograd_state(_allocated(tensor, sizes, strides, offset, tensor.device), tensor)
            self._storages.setdefault(key, fake)
            return fake
        if key not in self._storages:  # AOTAutograd asks how large it is
            nbytes = own_mode.shared_storages[key]
            self._storages[key] = torch.empty(nbytes, dtype=torch.uint8, device=tensor.device)
        fake = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
        return _with_autograd_state(fake.set_(self._storages[key].untyped_storage(), offset, sizes, strides), tensor)

    def _numbers(self, values: Iterable[Any]) -> list[Any]:
        return [self.number(value) for value in values]

    def _shadow(self, value: Any) -> Any:
        """What describes a value of a node, of which nothing is computed."""
        if isinstance(value, SYM_TYPES):
            known = self._shadows.get(value.node)
            if known is None:
                known = self._shadows[value.node] = self.number(value)
            return known
        if not isinstance(value, torch.Tensor):
            return value
        if value.layout != torch.strided or value.is_nested or is_traceable_wrapper_subclass(value):
            return self.mode.from_tensor(value, static_shapes=True)
        sizes, strides = ([self._shadow(number) for number in numbers] for numbers in (value.size(), value.stride()))
        key, offset = value.untyped_storage()._cdata, self._shadow(value.storage_offset())
        if key in self._storages:
            meta = torch.empty(0, dtype=value.dtype, device="meta")
            meta.set_(self._storages[key].untyped_storage(), offset, sizes, strides)
        else:
            meta = self._storages[key] = _allocated(value, sizes, strides, offset, "meta")
        fake = FakeTensor(self.mode, meta, value.device)
        return fake.requires_grad_() if value.requires_grad else fake

    # -- torch's to ours -----------------------------------------------------------------------------------------

    def close(self) -> None:
        """The compiler is done: what it decided on sizes becomes guards of the frame, unless our env knows it anyway."""
        self.shape_env.freeze()
        for question in _REMEMBERED_QUESTIONS:
            question.cache_clear()
        if self.own_env is not None:
            ours = {theirs: own for own, theirs in self.theirs.items()}
            for guard in self.shape_env.guards[self._known_guards :]:
                if guard.expr.free_symbols <= ours.keys():
                    _adopt(self.own_env, guard.expr.xreplace(ours))


def _adopt(env: OwnShapeEnv, expr: sympy.Basic) -> None:
    condition = env.boolean(expr)
    known = env.statically_known(condition)
    if known is False or env.hint_of(condition) is False:
        raise AssertionError(f"the compiler relied on {expr}, which the example inputs contradict")
    if known is None:
        env.record(condition, Why.BACKEND)


def _allocated(tensor: torch.Tensor, sizes: list[Any], strides: list[Any], offset: Any, device: Any) -> torch.Tensor:
    """A new tensor of this layout, over a storage that is large enough."""
    if isinstance(offset, int) and offset == 0:
        return torch.empty_strided(sizes, strides, dtype=tensor.dtype, device=device)
    is_empty = any(isinstance(size, int) and size == 0 for size in sizes)  # and reaches nowhere
    length = offset if is_empty else offset + 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    return torch.empty((length,), dtype=tensor.dtype, device=device).as_strided(sizes, strides, offset).detach()


def _with_autograd_state(fake: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.requires_grad:
        fake = fake.requires_grad_()
        if not tensor.is_leaf:
            fake = fake.clone()
    if isinstance(tensor, torch.nn.Parameter):
        mark_as_parameter(fake)
    return fake


def _with_bits(fake: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_conj():
        torch._C._set_conj(fake, True)
    if tensor.is_neg():
        torch._C._set_neg(fake, True)
    return fake


def _own_env(values: Iterable[Any]) -> OwnShapeEnv | None:
    """The tracer's env, found through any symbolic number among the inputs; None where all are static."""
    for value in map(_plain, values):
        numbers = (*value.size(), *_layout_numbers(value)) if isinstance(value, torch.Tensor) else (value,)
        for number in numbers:
            if isinstance(number, SYM_TYPES):
                found: OwnShapeEnv | None = number.node.shape_env.env
                return found
    return None


def _plain(value: Any) -> Any:
    return value.number if isinstance(value, FloatInTensor) else value


def _layout_numbers(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (*tensor.stride(), tensor.storage_offset()) if tensor.layout == torch.strided else ()
