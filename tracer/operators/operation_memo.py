"""Remembers results of whole operations within one trace. Programs repeat layers, and the metadata of a repeated layer's results
need not be computed again. Below this, `memo` does the same for the operators that an operation runs.

Only what follows from metadata is remembered: no random numbers, nothing written to, no sizes that data decide, no memory
that a result shares with an argument, no gradients, no tangents. Equal keys mean equal settings of torch, too.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor

from tracer import _C
from tracer.compat_torch.thread_state import dual_level
from tracer.operators.layout import same
from tracer.operators.memo import CallKey, new_tensor
from tracer.operators.results import CachedResult, NewTensor, NotCacheable, SameArgument

if TYPE_CHECKING:
    from tracer.graph.fakes.fake_mode import FakeMode

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType)
_TORCH_OPERATORS = (torch._ops.OpOverload, torch._ops.OpOverloadPacket)


class Known(NamedTuple):
    """The results of an operation, and whether it may fail on data when it runs."""

    result: CachedResult
    may_fail: bool


class OperationCache:
    """The results of operations in one trace, by their arguments."""

    def __init__(self, mode: FakeMode) -> None:
        self.mode = mode
        self._by_state: list[tuple[_C.GlobalState, dict[tuple[Any, ...], Known | None]]] = []
        self.bypassed = False  # set below autograd, where a result does not require a gradient though it would above
        self._aliasing: set[Any] = set()  # operations that gave memory of their arguments

    @contextlib.contextmanager
    def bypass(self) -> Iterator[None]:
        """Within, no result is remembered, and no remembered one is used."""
        outer, self.bypassed = self.bypassed, True
        try:
            yield
        finally:
            self.bypassed = outer

    def run(self, operation: Any, run: Callable[[], Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """What `run` gives, `operation` (a function, or the name of a method) on these arguments."""
        mode = self.mode
        if self.bypassed or mode.torch_env.env.suppressed or not _is_stateless(operation) or operation in self._aliasing:
            return run()
        if dual_level() >= 0:
            return run()
        try:
            key = CallKey(mode, operation, args, kwargs)
        except NotCacheable:
            return run()
        cache, parts = self.of_this_state(), (*key.parts, *_repeated(key.tensors))
        known = cache.get(parts)
        if known is not None:
            try:
                made = known.result.make(mode, key.tensors)
            except NotCacheable:
                return run()
            if known.may_fail:
                mode.note_may_fail()
            return made
        mode.watch_effects()
        result = run()
        if parts not in cache:  # None stands for what cannot be remembered
            is_repeatable = mode.repeatable and _arguments_are_unchanged(key, operation, args, kwargs)
            cache[parts] = self._known(operation, key, result) if is_repeatable else None
        return result

    def of_this_state(self) -> dict[tuple[Any, ...], Known | None]:
        """The results that are known under the present settings of torch."""
        for state, cache in self._by_state:
            if state.check():
                return cache
        self._by_state.append((_C.GlobalState(), {}))
        return self._by_state[-1][1]

    def _known(self, operation: Any, key: CallKey, result: Any) -> Known | None:
        is_tuple = type(result) is tuple
        results = result if is_tuple else (result,)
        try:
            outputs = tuple([self._output(operation, key, each) for each in results])
        except NotCacheable:
            return None
        storages = [each.untyped_storage()._cdata for each, how in zip(results, outputs) if type(how) is NewTensor]
        if len(set(storages)) < len(storages):
            return None
        return Known(CachedResult(outputs, is_tuple), self.mode.met_failing)

    def _output(self, operation: Any, key: CallKey, value: Any) -> SameArgument | NewTensor:
        if type(value) is not FakeTensor or value.constant is not None or value.layout is not torch.strided:
            raise NotCacheable("not a plain fake tensor")
        for position, tensor in enumerate(key.tensors):
            if tensor is value:
                return SameArgument(position)
        storage = value.untyped_storage()
        if any(storage._cdata == tensor.untyped_storage()._cdata for tensor in key.tensors):
            self._aliasing.add(operation)
            raise NotCacheable("memory of an argument")
        made = new_tensor(key, value, None)
        if value.requires_grad or any(symbol.hint is None for symbol in key.symbols):
            raise NotCacheable("a gradient, or a size that data decide")
        if not same(storage.nbytes(), value.numel() * value.element_size()) or made.offset != 0:
            raise NotCacheable("a part of what its storage holds")
        return made


def _is_stateless(operation: Any) -> bool:
    """Whether it is a function of torch, which depends on nothing but its arguments and the settings."""
    if type(operation) is str or isinstance(operation, _TORCH_OPERATORS):
        return True
    module = getattr(operation, "__module__", "") if type(operation) in _FUNCTIONS else ""
    return module is None or module in ("torch", "_operator") or module.startswith("torch.")


def _arguments_are_unchanged(key: CallKey, operation: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether an operation has left its arguments as they were: `requires_grad_` changes one, and no operator is run."""
    try:
        return CallKey(key.mode, operation, args, kwargs).parts == key.parts
    except NotCacheable:
        return False


def _repeated(tensors: Sequence[FakeTensor]) -> tuple[int, ...]:
    """Which of the arguments are the same object: for each, where it comes first."""
    if len(tensors) < 2:
        return ()
    first: dict[int, int] = {}
    return tuple([first.setdefault(id(tensor), index) for index, tensor in enumerate(tensors)])
