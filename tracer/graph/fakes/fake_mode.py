"""PyTorch's FakeTensorMode over an own shape env: a lean cache of results, and what operators do besides computing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import _DISPATCH_HANDLE_DIRECTLY, _DISPATCH_META_HANDLERS, FakeTensor, FakeTensorMode

from tracer.graph.fakes.wrapper_fakes import WrapperFake
from tracer.graph.symbols.shape_env_adapter import TorchShapeEnv
from tracer.operators import factories, function_rules, operator_rules, pools  # noqa: F401  (registers their rules)
from tracer.operators.facts import OperatorFacts, facts_of, leaves
from tracer.operators.meta import operator_result
from tracer.operators.probes import check_dtypes, may_refuse
from tracer.operators.results import CachedResult

_SYMBOLS_OF_KERNELS = (torch.SymFloat, torch.SymBool)


class FakeMode(FakeTensorMode):
    cache_of_static_sizes: dict[tuple[Any, ...], CachedResult | None] = {}  # of all traces: no symbol takes part

    def __init__(self, shape_env: TorchShapeEnv, asks_layout: bool = False) -> None:
        super().__init__(shape_env=shape_env, allow_non_fake_inputs=False)
        self.torch_env = shape_env
        self.asks_layout = asks_layout  # whether it is asked of sizes how a result lies in memory, which few programs look at
        self.layout_guessed = False
        self.drew_random_numbers = False
        self.written_storages: set[int] = set()  # `_cdata` of what operators wrote to
        self.writes: list[int] = []  # the same, each time
        self.shared_storages: dict[int, int] = {}  # those of several inputs, with the bytes that the real one has
        self.written_before_failing: set[int] = set()  # of those, written before or by an operator that may yet fail
        self.repeatable = True  # whether all operators since this was set would do no more if they ran again
        self.met_failing = False  # whether one of them may fail on data
        self.failing = 0  # how many operators so far may fail
        self.met_wrapper = False
        self.dispatched: Callable[..., Any] | None = None

    def dispatch(
        self, func: Any, types: Sequence[type], args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        if WrapperFake in types:
            return NotImplemented
        if func in _DISPATCH_META_HANDLERS or func in _DISPATCH_HANDLE_DIRECTLY:
            return super().dispatch(func, types, args, kwargs or {})
        kwargs = kwargs or {}
        facts = facts_of(func)
        refusable, may_fail = may_refuse(facts, args, kwargs), facts.may_fail
        if refusable and facts.only_computes or facts.elementwise and not facts.random:
            may_fail |= check_dtypes(func, args, kwargs)
        if not facts.only_computes:
            self._note_effects(facts, args, kwargs)
        if not facts.by_metadata:
            self.repeatable = False
        if (refusable or may_fail) and (self.written_storages or not self.met_failing):
            self.note_may_fail()
        return self.run_operator(func, types, args, kwargs)

    def run_operator(self, func: Any, types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What the operator gives; nothing is noted."""
        return operator_result(self, func, types, args, kwargs)

    def note_layout_guessed(self) -> None:
        """How a result lies in memory was not asked for: the strides of dims of size 0 or 1 may be others."""
        self.layout_guessed = True

    def note_wrapper(self) -> None:
        """A fake of a wrapper exists, whose operations come to the program's `__torch_dispatch__`."""
        self.met_wrapper = True

    def answer_wrappers_with(self, dispatched: Callable[..., Any] | None) -> None:
        """`dispatched` traces the `__torch_dispatch__` that an operator on wrappers comes to."""
        self.dispatched = dispatched

    def watch_effects(self) -> None:
        """From here on `repeatable` and `met_failing` tell of the operators that follow."""
        self.repeatable, self.met_failing = True, False

    def note_may_fail(self) -> None:
        """What stands here in the graph may raise when it runs, after all that was written so far."""
        self.met_failing = True
        self.failing += 1
        self.written_before_failing |= self.written_storages

    def _note_effects(self, facts: OperatorFacts, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        random = facts.draws(args, kwargs)
        self.drew_random_numbers |= random
        written = [t.untyped_storage()._cdata for t in facts.written_tensors(args, kwargs) if t.layout is torch.strided]
        self.written_storages.update(written)
        self.writes += written
        if random or written:
            self.repeatable = False

    def _dispatch_impl(self, func: Any, types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        beside_symbols = any(isinstance(each, _SYMBOLS_OF_KERNELS) for each in leaves(args, kwargs))
        if not beside_symbols or not isinstance(func, torch._ops.OpOverload):
            return super()._dispatch_impl(func, types, args, kwargs)
        with self._data_unknown(func._schema.is_mutable, args, kwargs):
            return super()._dispatch_impl(func, types, args, kwargs)

    @contextlib.contextmanager
    def _data_unknown(self, mutates: bool, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[None]:
        """PyTorch computes operators on tensors made of constants while tracing. With a symbolic float or bool beside them
        kernels would take NaN for it, so the data of such tensors are not to be seen here."""
        tensors = [each for each in leaves(args, kwargs) if isinstance(each, FakeTensor)]
        known = [(tensor, tensor.constant) for tensor in tensors if tensor.constant is not None]
        for tensor, constant in known:
            if mutates:
                self.fake_tensor_converter.invalidate_constant_aliases(constant)
            tensor.constant = None
        try:
            yield
        finally:
            if not mutates:
                for tensor, constant in known:
                    tensor.constant = constant
