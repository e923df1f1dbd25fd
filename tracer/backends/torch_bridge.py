"""The backends that end in torch's own compilers (AOTAutograd, Inductor), through a ShapeEnv of torch's.

The only file that touches torch's ShapeEnv. A compile gets a fresh one, with one symbol for each of the tracer's and
the facts that hold so far; the inputs are rebuilt under its fake mode; what the compiler then decided on sizes is
recorded in the tracer's env, and thereby becomes guards of the frame.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import sympy
import torch
from torch import fx
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
from torch._guards import GuardSource, Source, TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._sympy.numbers import int_oo

from shapes.env import ShapeEnv as OwnShapeEnv
from shapes.guards import Why
from shapes.ranges import INF, Range
from shapes.symbols import Symbol as OwnSymbol
from tracer.backends.runtime_checks import return_checked_values
from tracer.graph.torch_sympy import to_torch_sympy

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def aot_eager(gm: fx.GraphModule, example_inputs: list[Any], **options: Any) -> Callable[..., Any]:
    """AOTAutograd (functionalised forward and backward graphs), each run operation by operation."""
    if options:
        raise TypeError(f"backend 'aot_eager' takes no {' or '.join(f'{name}=' for name in sorted(options))}")
    return compile_with(_aot_eager, gm, example_inputs)


def inductor(
    gm: fx.GraphModule, example_inputs: list[Any], mode: str | None = None, options: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """Inductor, with the modes and options that it lists (`torch._inductor.list_mode_options()`, `.list_options()`)."""
    import torch._inductor as inductor_package  # 2 s of imports that only this backend needs
    from torch._inductor.compile_fx import compile_fx

    patches = dict(inductor_package.list_mode_options(mode) if mode else {})
    patches.update({name.replace("-", "_"): value for name, value in (options or {}).items()})
    return compile_with(lambda graph, inputs: compile_fx(graph, inputs, config_patches=patches), gm, example_inputs)


def _aot_eager(gm: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    return aot_module_simplified(
        gm, inputs, fw_compiler=_run_as_written, bw_compiler=_run_as_written, keep_inference_input_mutations=True
    )


def _run_as_written(gm: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    return make_boxed_func(gm.forward)


def compile_with(
    compiler: Callable[[fx.GraphModule, list[Any]], Callable[..., Any]], gm: fx.GraphModule, example_inputs: list[Any]
) -> Callable[..., Any]:
    """Runs one of torch's compilers on a captured graph; guards that it adds become guards of the tracer's env."""
    bridge = Bridge(example_inputs)
    inputs = bridge.inputs()
    graph = _copy_of(gm.graph)
    checked = return_checked_values(graph)
    _drop_examples(graph)
    with tracing(TracingContext(bridge.mode)):
        compiled = compiler(fx.GraphModule(gm, graph), inputs)
    bridge.adopt_new_guards()
    return checked(compiled)


def _copy_of(graph: fx.Graph) -> fx.Graph:
    copy = fx.Graph()
    copy.output(copy.graph_copy(graph, val_map={}))
    return copy


def _drop_examples(graph: fx.Graph) -> None:
    """Drops the tracer's fake values, which live in another mode than the compiler's."""
    for node in graph.nodes:
        node.meta = {key: value for key, value in node.meta.items() if key != "example_value"}


@dataclasses.dataclass(frozen=True)
class SymbolSource(Source):
    """Where torch is told that a symbol comes from: the symbol of the same name in the tracer's env."""

    label: str

    @property
    def _name_template(self) -> str:
        return self.label

    @property
    def guard_source(self) -> GuardSource:  # type: ignore[override]
        return GuardSource.CONSTANT


class Bridge:
    """One compile's torch ShapeEnv and fake mode, and the way between its symbols and the tracer's."""

    def __init__(self, own_inputs: list[Any]) -> None:
        self.own_inputs = own_inputs
        self.own_env = _own_env(own_inputs)
        self.shape_env = ShapeEnv(
            specialize_zero_one=True, duck_shape=False, allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True
        )
        self.mode = FakeTensorMode(shape_env=self.shape_env)
        self.theirs: dict[sympy.Symbol, sympy.Symbol] = {}  # symbol of ours -> torch's
        if self.own_env is not None:
            self._add_symbols(self.own_env)
            self._replay_facts(self.own_env)
        self._known_guards = len(self.shape_env.guards)

    # -- ours to torch's -----------------------------------------------------------------------------------------

    def inputs(self) -> list[Any]:
        """The example inputs, rebuilt under torch's fake mode; those that shared a storage share one again."""
        storages: dict[int, torch.Tensor] = {}
        return [self._value(value, storages) for value in self.own_inputs]

    def number(self, value: Any) -> Any:
        """An int or float, or torch's symbolic number for one of ours."""
        if not isinstance(value, _SYMBOLIC):
            return value
        expr, hint = to_torch_sympy(value.node.expr, self.theirs), value.node.hint
        if isinstance(value, torch.SymFloat):
            return self.shape_env.create_symfloatnode(expr, hint=hint)
        return self.shape_env.create_symintnode(expr, hint=hint)

    def _add_symbols(self, env: OwnShapeEnv) -> None:
        for symbol in env.symbols():
            if symbol.backed:
                self.theirs[symbol.sympy] = self._symbol(symbol, env.bounds)
            elif symbol.label is not None and not symbol.kind.is_float:  # an input; others are made by the graph itself
                self.theirs[symbol.sympy] = self.shape_env.create_unbacked_symint().node.expr
                self._constrain(self.theirs[symbol.sympy], env.bounds(symbol.expr))

    def _symbol(self, symbol: OwnSymbol, bounds: Callable[[Any], Range]) -> sympy.Symbol:
        source = SymbolSource(symbol.name)
        if symbol.kind.is_float:
            return self.shape_env.create_unspecified_symbol(symbol.hint, source, DimDynamic.DYNAMIC)
        low, high = bounds(symbol.expr)
        theirs = self.shape_env.create_symbol(
            symbol.hint,
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

    def _value(self, value: Any, storages: dict[int, torch.Tensor]) -> Any:
        if isinstance(value, _SYMBOLIC):
            return self.number(value)
        if isinstance(value, torch.Tensor):
            return self._tensor(value, storages)
        return value

    def _tensor(self, tensor: torch.Tensor, storages: dict[int, torch.Tensor]) -> torch.Tensor:
        """A tensor of the compiler's mode with the same metadata; `storages` holds one for each storage met so far."""
        if tensor.layout != torch.strided or tensor.is_nested or is_traceable_wrapper_subclass(tensor):
            return self.mode.from_tensor(tensor, static_shapes=True)
        key = tensor.untyped_storage()._cdata
        geometry = self._numbers(tensor.size()), self._numbers(tensor.stride()), self.number(tensor.storage_offset())
        with self.mode, torch.enable_grad():
            if tensor._is_view() and tensor._base is not None and key not in storages:
                self._tensor(tensor._base, storages)
            if key not in storages:
                storages[key] = fake = _with_autograd_state(_allocated(tensor, *geometry), tensor)
            elif tensor._is_view() and tensor.dtype == storages[key].dtype:
                fake = storages[key].as_strided(*geometry)
            else:
                sizes, strides, offset = geometry
                fake = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
                fake = _with_autograd_state(fake.set_(storages[key].untyped_storage(), offset, sizes, strides), tensor)
            return _with_bits(fake, tensor)

    def _numbers(self, values: Iterable[Any]) -> list[Any]:
        return [self.number(value) for value in values]

    # -- torch's to ours -----------------------------------------------------------------------------------------

    def adopt_new_guards(self) -> None:
        """What the compiler decided on sizes becomes guards of the frame, unless our env knows it anyway."""
        if self.own_env is None:
            return
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


def _allocated(tensor: torch.Tensor, sizes: list[Any], strides: list[Any], offset: Any) -> torch.Tensor:
    if isinstance(offset, int) and offset == 0:
        return torch.empty_strided(sizes, strides, dtype=tensor.dtype, device=tensor.device)
    length = offset + 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    return torch.empty((length,), dtype=tensor.dtype, device=tensor.device).as_strided(sizes, strides, offset).detach()


def _with_autograd_state(fake: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.requires_grad:
        fake = fake.requires_grad_()
        if not tensor.is_leaf:
            fake = fake.clone()
    if isinstance(tensor, torch.nn.Parameter):
        fake._is_param = True  # type: ignore[attr-defined]
    return fake


def _with_bits(fake: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_conj():
        torch._C._set_conj(fake, True)
    if tensor.is_neg():
        torch._C._set_neg(fake, True)
    return fake


def _own_env(values: Iterable[Any]) -> OwnShapeEnv | None:
    """The tracer's env, found through any symbolic number among the inputs; None where all are static."""
    for value in values:
        numbers = (*value.size(), *_layout_numbers(value)) if isinstance(value, torch.Tensor) else (value,)
        for number in numbers:
            if isinstance(number, _SYMBOLIC):
                return number.node.shape_env.env
    return None


def _layout_numbers(tensor: torch.Tensor) -> tuple[Any, ...]:
    return (*tensor.stride(), tensor.storage_offset()) if tensor.layout == torch.strided else ()
