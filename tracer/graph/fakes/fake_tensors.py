"""Fake tensors whose sizes are symbols of the tracer's ShapeEnv: making them from real inputs, and running operators on them.

Each trace has one `FakeWorld`: the ShapeEnv, its adapter for PyTorch and the fake mode.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes as outside_of_modes
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from shapes.constraints import DimConstraint
from shapes.env import INT64, ShapeEnv
from shapes.policy import DimPolicy
from shapes.polynomial import IntExpr
from shapes.symbols import Symbol
from tracer.compat_torch.thread_state import dispatch_state, dual_level, leave_dual_levels
from tracer.graph.fakes.fake_mode import FakeMode
from tracer.graph.fakes.input_memory import RealMemory
from tracer.graph.fakes.nested_fakes import makes_nested, nested_in, running_nested
from tracer.graph.fakes.program_fakes import ProgramFakes
from tracer.graph.fakes.wrapper_fakes import WrapperFake, with_history, wrapper_fake, wrappers_in
from tracer.graph.symbols.shape_env_adapter import TorchShapeEnv
from tracer.graph.symbols.sym_node import SymNode
from tracer.graph_breaks import unsupported
from tracer.operators.facts import overload_with_tensor, turns_of
from tracer.operators.layout import INNERMOST, dims_inside
from tracer.operators.operation_memo import OperationCache
from tracer.operators.proxies import SYM_TYPES
from tracer.operators.results import laid_over
from tracer.sources.base import Source
from tracer.sources.tensors import TensorSizeSource, TensorStrideSource


class FakeWorld:
    """The symbols, the fake tensors and the operators of one trace."""

    def __init__(
        self, env: ShapeEnv | None = None, *, asks_layout: bool = False, under_fake_mode: bool = False, **options: Any
    ) -> None:
        """`options` are those of a new ShapeEnv. `under_fake_mode`: the program is under a FakeTensorMode of its own."""
        self.env = ShapeEnv(**options) if env is None else env
        self.torch_env = TorchShapeEnv(self.env)
        self.fake_mode = FakeMode(self.torch_env, asks_layout)
        self.operations = OperationCache(self.fake_mode)
        self.program_fakes = ProgramFakes(under_fake_mode)
        self._memory = RealMemory()
        # While an operation runs, the dispatch keys that the thread included and excluded before it; None between operations.
        self._outer_keys: tuple[Any, Any] | None = None
        # While torch's dispatcher calls the tracer, the keys of the layers that it has gone through; None at other times.
        self._passed_keys: Any = None
        self._rules: dict[Any, Callable[..., Any]] = {}  # function -> what runs on fakes in its place
        self.warns_are_heard = False  # whether the program records warnings, or makes errors of them, somewhere in the trace

    def close(self) -> None:
        """Called when the trace has ended. Drops the references to functions that would keep its frames alive."""
        self.env.where = _nowhere
        self.fake_mode.answer_wrappers_with(None)
        self.fake_mode.seqlens.clear()

    # -- inputs --------------------------------------------------------------------------------------------------

    def fakify(
        self,
        tensor: torch.Tensor,
        source: Source,
        dims: Sequence[DimPolicy] | None = None,
        constraints: Sequence[DimConstraint | None] | None = None,
        strides: Sequence[DimPolicy] | None = None,
    ) -> FakeTensor:
        """The fake of a tensor that exists before the trace. `dims` and `strides` say which of them become symbols; dims default
        to duck shaping, strides to what follows from the sizes. `constraints` are the user's bounds, by dim."""
        dims = _policies(tensor, source, dims)
        if not _is_plain(tensor):
            return self.fake_mode.from_tensor(tensor, static_shapes=True)
        sizes = self._sizes(tensor, source, dims, constraints)
        steps = self._strides(tensor, source, sizes, strides)
        return self._build(tensor, sizes, steps)

    def fakify_wrapper(
        self,
        tensor: torch.Tensor,
        source: Source,
        dims: Sequence[DimPolicy] | None = None,
        constraints: Sequence[DimConstraint | None] | None = None,
        strides: Sequence[DimPolicy] | None = None,
    ) -> torch.Tensor:
        """As `fakify`, of a tensor whose class has its own `__torch_dispatch__`; its parts are fakes of their own."""
        dims = _policies(tensor, source, dims)
        sizes = self._sizes(tensor, source, dims, constraints)
        steps = [self.torch_env.wrap(step) for step in self._strides(tensor, source, sizes, strides)]
        shape, offset = [self.torch_env.wrap(size) for size in sizes], tensor.storage_offset()

        def make() -> torch.Tensor:
            with torch._C.DisableTorchFunctionSubclass(), self.env.suppress_guards(), _plain_autograd():
                about = {"storage_offset": offset, "dtype": tensor.dtype, "device": tensor.device}
                return wrapper_fake(self.fake_mode, type(tensor), shape, strides=steps, **about)

        fake = make() if tensor.is_leaf or not tensor.requires_grad else with_history(make)
        if tensor.requires_grad and tensor.is_leaf:
            fake.requires_grad_(True)
        if isinstance(tensor, torch.nn.Parameter):
            mark_as_parameter(fake)
        return fake

    def _sizes(
        self,
        tensor: torch.Tensor,
        source: Source,
        dims: Sequence[DimPolicy],
        constraints: Sequence[DimConstraint | None] | None,
    ) -> list[int | IntExpr]:
        marks = [None] * len(dims) if constraints is None else constraints
        return [
            size if policy is DimPolicy.STATIC else self.env.create_size(size, TensorSizeSource(source, dim), policy, mark)
            for dim, (size, policy, mark) in enumerate(zip(tensor.shape, dims, marks, strict=True))
        ]

    def _strides(
        self,
        tensor: torch.Tensor,
        source: Source,
        sizes: Sequence[int | IntExpr],
        policies: Sequence[DimPolicy] | None,
    ) -> list[int | IntExpr]:
        """Products of the inner sizes where the strides are such; else constants, or symbols where asked for."""
        strides: list[int | IntExpr] = list(tensor.stride())
        if all(isinstance(size, int) for size in sizes) and policies is None:
            return strides
        for dim, inside in dims_inside(tensor):
            step, label = tensor.stride(dim), TensorStrideSource(source, dim)
            policy = DimPolicy.STATIC if policies is None else policies[dim]
            if policy is DimPolicy.DYNAMIC or (policy is DimPolicy.DUCK and inside is None):
                specialize = False if tensor.shape[dim] == 1 else None
                strides[dim] = self.env.create_stride(step, label, specialize_zero_one=specialize)
            elif inside is not None and inside != INNERMOST:
                strides[dim] = stride = strides[inside] * sizes[inside]
                if isinstance(stride, IntExpr):
                    self.env.bind(label, stride)
        return strides

    def _build(self, tensor: torch.Tensor, sizes: Sequence[int | IntExpr], strides: Sequence[int | IntExpr]) -> FakeTensor:
        shape, steps, asking = list(sizes), list(strides), _NOTHING
        if not all(type(number) is int for number in (*sizes, *strides)):
            shape, steps = [self.torch_env.wrap(s) for s in sizes], [self.torch_env.wrap(s) for s in strides]
            asking = self.env.suppress_guards()
        with torch._C.DisableTorchFunctionSubclass(), asking, _plain_autograd():
            offset, shared = tensor.storage_offset(), self._memory.shared_with(tensor)
            meta = torch.empty_strided(shape, steps, dtype=tensor.dtype, device="meta")
            if shared is not None:
                self.fake_mode.shared_storages[shared._cdata] = tensor.untyped_storage().nbytes()
                laid_over(meta, shared, offset, shape, steps)
            elif offset:
                storage = torch.empty(offset + 1, dtype=tensor.dtype, device="meta").untyped_storage()
                laid_over(meta, storage, offset, shape, steps)
            self._memory.add(tensor, meta.untyped_storage())
            if tensor.is_conj():
                meta = torch._C._set_conj(meta, True) or meta
            if tensor.is_neg():
                meta = torch._C._set_neg(meta, True) or meta
            fake = self.fake_mode.fake_of(meta, tensor.device)
        return self._with_autograd(tensor, fake)

    def _with_autograd(self, tensor: torch.Tensor, fake: FakeTensor) -> FakeTensor:
        if tensor.requires_grad:
            base = None if tensor.is_leaf else tensor._base
            if tensor.is_leaf or (base is not None and base.is_leaf):
                fake.requires_grad_(True)
            else:
                with_history(lambda: fake)
            if base is not None:
                with torch.enable_grad(), self.fake_mode:
                    fake = fake.view_as(fake)
                torch._C._autograd._set_creation_meta(fake, torch._C._autograd._get_creation_meta(tensor))
        if isinstance(tensor, torch.nn.Parameter):
            mark_as_parameter(fake)
        return fake

    def symint(self, value: int, source: Source, policy: DimPolicy = DimPolicy.DYNAMIC) -> torch.SymInt | int:
        """The symbol of a plain int of the program; PyTorch's symbolic ints have 64 bits, larger ones are constants."""
        if policy is DimPolicy.STATIC or not INT64[0] <= value <= INT64[1]:
            return value
        declared = self.env.declared_int(source)
        if isinstance(declared, int):
            return declared
        return self.torch_env.wrap(self.env.create_int(value, source) if declared is None else declared)

    def symfloat(self, value: float, source: Source) -> torch.SymFloat:
        """The symbol of a float of the program."""
        return self.torch_env.wrap(self.env.create_float(value, source))

    def symbol(self, symbol: Symbol) -> torch.SymInt | torch.SymFloat:
        """A symbol of the env as PyTorch's number."""
        return self.torch_env.wrap(symbol.expr)

    # -- running -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def propagate(self) -> Iterator[None]:
        """Within, operators on fake tensors compute fake results; grad mode stays as it is."""
        with self.fake_mode, enable_python_dispatcher():
            yield

    def run(self, function: Callable[..., Any], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None) -> Any:
        """`function(*args, **kwargs)` on fakes."""
        args, kwargs = _without_some_floats(function, args, kwargs or {})
        of_wrappers = self.concerns_wrappers(function, args, kwargs)
        if self._rules and not of_wrappers:
            function = self._rules.get(function, function)
        passed, outer, level = self._passed_keys, self._outer_keys, dual_level()
        if outer is None:
            self._outer_keys = dispatch_state()
        self._passed_keys = None
        nested: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if self._concerns_nested(function, args, kwargs):
            nested = running_nested(self.fake_mode, self.env)
        note = None if self.fake_mode.asks_layout else self.fake_mode.note_layout_guessed
        heard = _refusing_warnings() if self.warns_are_heard else contextlib.nullcontext()
        try:
            with _excluding(passed):
                kernels = contextlib.nullcontext() if of_wrappers else enable_python_dispatcher()  # enabled from here on
                with nested, self.fake_mode, kernels, self.torch_env.answering_by_default(note), heard:
                    return function(*args, **kwargs)
        except BaseException:
            leave_dual_levels(level)  # of a graph in the graph
            raise
        finally:
            self._passed_keys, self._outer_keys = passed, outer

    def concerns_wrappers(self, function: Callable[..., Any], args: Any, kwargs: Any) -> bool:
        """Whether a function is called with wrappers. It then runs without rules and Python kernels: C++ alone decides which of
        its operators reach the program's `__torch_dispatch__`, as when the graph runs."""
        if self._concerns_nested(function, args, kwargs):
            return True
        if not self.fake_mode.met_wrapper:
            return False
        return bool(wrappers_in((getattr(function, "__self__", None), args, kwargs)))

    def _concerns_nested(self, function: Callable[..., Any], args: Any, kwargs: Any) -> bool:
        """Whether a function takes or makes nested tensors."""
        if makes_nested(function):
            self.fake_mode.note_nested()
            return True
        return self.fake_mode.met_nested and nested_in((getattr(function, "__self__", None), args, kwargs))

    @contextlib.contextmanager
    def called_back(self) -> Iterator[None]:
        """Entered where torch's dispatcher calls the tracer while an operation runs. Within, the thread has the dispatch keys
        that it had before the operation. Operations that run within skip the layers that the dispatcher has gone through."""
        outer, before = self._outer_keys, self._passed_keys
        if outer is None:
            unsupported("tensor-subclass", cls="a wrapper", source="an operation that the program does not call")
        self._passed_keys = torch._C._dispatch_tls_local_exclude_set()
        try:
            with outside_of_modes(), torch._C._ForceDispatchKeyGuard(*outer):
                yield
        finally:
            self._passed_keys = before

    @contextlib.contextmanager
    def replacing(self, function: Callable[..., Any], rule: Callable[..., Any]) -> Iterator[None]:
        """Within, `rule` is run on fakes in place of `function`."""
        before = self._rules
        self._rules = {**before, function: rule}
        try:
            yield
        finally:
            self._rules = before


@contextlib.contextmanager
def _refusing_warnings() -> Iterator[None]:
    """Within, what an operation warns of breaks the graph."""
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # what torch warns of once in a process does not count with this switch
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    finally:
        torch.set_warn_always(always)
    if caught:
        unsupported("side-effect-call", name="an operation", value=f"it warns: {caught[0].message}")


def _plain_autograd() -> contextlib.AbstractContextManager[None]:
    """Within, new tensors are normal ones without a history, whatever modes of autograd the program is in."""
    if torch.is_grad_enabled() or torch.is_inference_mode_enabled():
        return _without_history()
    return _NOTHING


_NOTHING: contextlib.AbstractContextManager[None] = contextlib.nullcontext()


@contextlib.contextmanager
def _without_history() -> Iterator[None]:
    with torch.inference_mode(False), torch.no_grad():
        yield


def _policies(tensor: torch.Tensor, source: Source, dims: Sequence[DimPolicy] | None) -> Sequence[DimPolicy]:
    dims = [DimPolicy.DUCK] * tensor.dim() if dims is None else dims
    if len(dims) != tensor.dim():
        raise ValueError(f"{source.name} has {tensor.dim()} dims, but {len(dims)} policies were given")
    return dims


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor is strided and its fake follows from sizes, strides and flags alone. PyTorch makes the fakes of others."""
    return (
        tensor.layout is torch.strided
        and not tensor.is_quantized
        and not tensor.is_nested
        and not is_traceable_wrapper_subclass(tensor)
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )


def _excluding(keys: Any) -> contextlib.AbstractContextManager[Any]:
    """Within, the thread excludes these dispatch keys as well, none for None. Afterwards its keys are as before: an operator that
    fails under forward AD may leave others."""
    include, exclude = dispatch_state()
    excluded = exclude if keys is None else exclude | keys
    found: contextlib.AbstractContextManager[Any] = torch._C._ForceDispatchKeyGuard(include, excluded)
    return found


@contextlib.contextmanager
def mode_of(fake: Any) -> Iterator[None]:
    """Within, operations on fakes run in the fake mode that this one belongs to."""
    with fake.fake_mode, enable_python_dispatcher():
        yield


def mark_as_parameter(fake: torch.Tensor) -> None:
    """Makes isinstance(fake, torch.nn.Parameter) true."""
    fake._is_param = True


def is_plain_fake(value: Any) -> bool:
    """Whether a value is a strided fake tensor whose data is not known."""
    return type(value) is FakeTensor and value.constant is None and value.layout is torch.strided


def is_leaf(tensor: torch.Tensor) -> bool | None:
    """`tensor.is_leaf`; None if autograd raises instead: for a view made under no_grad whose base was written to since."""
    try:
        found: bool | None = tensor.is_leaf
        return found
    except RuntimeError:
        return None


def storage_of(tensor: torch.Tensor) -> int:
    """A number that tells storages apart. Of a tensor that transforms of torch.func have wrapped, that of the innermost one."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    number: int = tensor.untyped_storage()._cdata
    return number


def storages_of(examples: Iterable[Any]) -> set[int]:
    """The storages of those that are tensors with memory of their own."""
    return {storage_of(each) for each in examples if isinstance(each, torch.Tensor) and each.layout is torch.strided}


def is_symbolic(value: Any) -> bool:
    """Whether a number is a SymInt, SymFloat or SymBool that is not a constant, nor the size of a ragged dim."""
    return isinstance(value, SYM_TYPES) and value.node.constant is None and not value.node.is_nested_int()


def expr_of(number: Any) -> Any:
    """The SymPy expression of a symbolic number."""
    return number.node.expr


def hints_in(number: Any, from_data: int) -> dict[Any, int]:
    """The values of the SymPy symbols in a symbolic number, in the traced call; `from_data` for those that depend on data."""
    value = number.node.value
    return {symbol.sympy: from_data if symbol.hint is None else symbol.hint for symbol in value.algebra.symbols(value)}


def symbols_in(value: Any) -> list[Any]:
    """The SymPy symbols in the sizes, strides and offset of a tensor, or in a number; in order of creation."""
    exprs: list[Any] = []
    _collect(value, exprs)
    if not exprs:
        return []
    return [symbol.sympy for symbol in exprs[0].algebra.symbols(*exprs)]


def _collect(value: Any, into: list[Any]) -> None:
    if isinstance(value, torch.Tensor):
        if isinstance(value, WrapperFake) and value.flattened is not None:
            _collect([*value.flattened.parts.values(), value.flattened.context], into)
        _collect(value.shape, into)
        if value.layout is torch.strided:
            _collect(value.stride(), into)
            _collect(value.storage_offset(), into)
    elif isinstance(value, SYM_TYPES):
        if type(value.node) is SymNode:
            into.append(value.node.reduced())
    elif isinstance(value, (tuple, list, torch.Size)):
        for item in value:
            if type(item) is not int:
                _collect(item, into)
    elif isinstance(value, dict):
        _collect(list(value.values()), into)


def _nowhere() -> None:
    return None


def _known(value: Any) -> Any:
    """An argument with the values of its symbolic numbers in the traced call."""
    if isinstance(value, (list, tuple)):
        return [_known(item) for item in value]
    return value.node.hint if isinstance(value, SYM_TYPES) and value.node.hint is not None else value


def _without_some_floats(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """The arguments of an operation, each symbolic float that a tensor could stand for, or that only elements of the results
    depend on, replaced by its value in the traced call. What is known of the results does not depend on it; the call from Python
    would ask for the value, and make a guard on it."""
    places: list[Any] = [*((i, arg) for i, arg in enumerate(args)), *kwargs.items()]
    floats = {place: arg.node.hint for place, arg in places if isinstance(arg, torch.SymFloat) and arg.node.hint is not None}
    if not floats:
        return args, kwargs
    # An overload is chosen by the kinds of its arguments; symbolic numbers would be guarded.
    known_args, known_kwargs = tuple(map(_known, args)), {name: _known(arg) for name, arg in kwargs.items()}
    for place, value in floats.items():
        if overload_with_tensor(function, known_args, known_kwargs, place) is None:
            turns = turns_of(function, known_args, known_kwargs, place)
            if turns is None or any(args[place] == turn if isinstance(place, int) else kwargs[place] == turn for turn in turns):
                continue
        if isinstance(place, int):
            args = [value if i == place else arg for i, arg in enumerate(args)]
        else:
            kwargs = {**kwargs, place: value}
    return args, kwargs
