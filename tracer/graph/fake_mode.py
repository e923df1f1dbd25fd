"""PyTorch's FakeTensorMode over an own shape env, with a lean dispatch cache that keeps own nodes.

torch's cache rebuilds its own nodes on a hit. Here a symbolic size stands in the key as its node (one per expression,
compared by identity), and a result's sizes are kept as they are. What may be cached at all is torch's decision.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch._subclasses._fake_tensor_utils import _CacheKeyState
from torch._subclasses.fake_tensor import (
    FakeTensor,
    FakeTensorMode,
    SingletonConstant,
    _BypassDispatchCache,
    _DispatchCacheBypassEntry,
    in_kernel_invocation_manager,
)

from shapes.symbols import Symbol
from tracer.graph.proxies import proxies_active
from tracer.graph.shape_env_adapter import TorchShapeEnv

_PLAIN = frozenset(
    (int, float, bool, str, complex, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)
)

MAX_ENTRIES = 8192


class KeyState(_CacheKeyState):
    """What a key under construction has met; the part of torch's state that making an entry reads."""

    def __init__(self, shape_env: TorchShapeEnv) -> None:
        super().__init__(shape_env)  # type: ignore[arg-type]
        self.symbols: set[Symbol] = set()

    def convert_output(self, arg: Any) -> Any:
        return arg  # sizes of a result are kept as they are


class Key:
    """A cache key; equal parts make equal keys."""

    __slots__ = ("key", "hash")

    def __init__(self, parts: list[Any]) -> None:
        self.key = tuple(parts)
        self.hash = hash(self.key)

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and self.key == other.key


class OperatorEffects(NamedTuple):
    """What an operator does besides computing its results."""

    random: bool
    written: tuple[tuple[int, str], ...]  # position and name of the arguments that it writes to


@functools.cache
def operator_effects(func: Any) -> OperatorEffects | None:
    """None for an operator that only computes. Batch norm's schema does not say that it updates its statistics."""
    schema = getattr(func, "_schema", None)  # higher-order operators have none
    if schema is None:
        return None
    arguments = schema.arguments
    statistics = ("running_mean", "running_var") if "batch_norm" in schema.name else ()
    written = tuple(
        (position, argument.name)
        for position, argument in enumerate(arguments)
        if (argument.alias_info is not None and argument.alias_info.is_write) or argument.name in statistics
    )
    random = torch.Tag.nondeterministic_seeded in func.tags
    return OperatorEffects(random, written) if random or written else None


class FakeMode(FakeTensorMode):
    cache_of_static_sizes: dict[Key, Any] = {}  # of all traces: no symbol takes part

    def __init__(self, shape_env: TorchShapeEnv) -> None:
        super().__init__(shape_env=shape_env, allow_non_fake_inputs=False)  # type: ignore[arg-type]
        self.torch_env = shape_env
        self.drew_random_numbers = False
        self.written_storages: set[int] = set()  # `_cdata` of what operators wrote to

    def _cached_dispatch_impl(
        self, func: Any, types: Sequence[type], args: Sequence[object], kwargs: Mapping[str, object]
    ) -> object:
        effects = operator_effects(func)
        if effects is not None:
            self._note_effects(effects, args, kwargs)
        if self.torch_env.env.suppressed:  # decisions made now are not recorded, and a hit would never record them
            return self._dispatch_impl(func, types, args, kwargs)
        state = KeyState(self.torch_env)
        try:
            key = self._key_of(state, func, args, kwargs)
        except _BypassDispatchCache:
            return self._dispatch_impl(func, types, args, kwargs)
        cache = self.torch_env.fake_tensor_cache if state.symbols else self.cache_of_static_sizes
        entry = cache.get(key)
        if entry is None:
            output = self._dispatch_impl(func, types, args, kwargs)
            if len(cache) >= MAX_ENTRIES:
                cache.clear()
            cache[key] = self._entry(state, key, func, args, kwargs, output)
            return output
        if isinstance(entry, _DispatchCacheBypassEntry):
            return self._dispatch_impl(func, types, args, kwargs)
        return self._output_from_cache_entry(state, entry, key, func, args)  # type: ignore[arg-type]

    def _note_effects(self, effects: OperatorEffects, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        self.drew_random_numbers |= effects.random
        for position, name in effects.written:
            written = args[position] if position < len(args) else kwargs.get(name)
            for tensor in written if isinstance(written, (list, tuple)) else (written,):
                if isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided:
                    self.written_storages.add(tensor.untyped_storage()._cdata)

    def _entry(self, state: KeyState, key: Any, func: Any, args: Any, kwargs: Any, output: Any) -> Any:
        try:
            return self._make_cache_entry(state, key, func, args, kwargs, output)
        except _BypassDispatchCache as error:
            return _DispatchCacheBypassEntry(error.reason)

    # -- keys ----------------------------------------------------------------------------------------------------

    def _key_of(self, state: KeyState, func: Any, args: Sequence[object], kwargs: Mapping[str, object]) -> Key:
        parts: list[Any] = [
            func,
            torch.get_default_dtype(),
            torch._C._get_default_device(),
            torch.is_inference_mode_enabled(),
            proxies_active(),
        ]
        self._add_all(parts, state, args)
        if kwargs:
            parts.extend(kwargs)
            self._add_all(parts, state, kwargs.values())
        return Key(parts)

    def _add_all(self, parts: list[Any], state: KeyState, values: Iterable[Any]) -> None:
        for value in values:
            kind = type(value)
            if kind is FakeTensor:
                self._add_tensor(parts, state, value)
            elif kind in _PLAIN:
                parts += (kind, value)  # 1, 1.0 and True are equal and give different results
            elif kind is torch.SymInt:
                self._add_symint(parts, state, value)
            elif isinstance(value, (list, tuple)):
                parts += (kind, len(value))
                self._add_all(parts, state, value)
            else:
                raise _BypassDispatchCache(f"argument of type {kind.__name__}")

    def _add_symint(self, parts: list[Any], state: KeyState, value: torch.SymInt) -> None:
        node = value.node
        parts.append(node)
        state.symbols |= self.torch_env.symbols_of(node.value)

    def _add_tensor(self, parts: list[Any], state: KeyState, tensor: FakeTensor) -> None:
        if tensor.fake_mode is not self or tensor.constant is not None or tensor.layout is not torch.strided:
            raise _BypassDispatchCache("not a plain fake tensor of this mode")
        keys = torch._C._dispatch_keys(tensor).raw_repr()  # conj, neg, quantized, inference and autograd state
        parts += (FakeTensor, tensor.dtype, tensor.fake_device, keys, tensor.requires_grad, tensor.dim())
        for numbers in (tensor.shape, tensor.stride(), (tensor.storage_offset(),)):
            for number in numbers:
                if type(number) is int:
                    parts.append(number)
                else:
                    self._add_symint(parts, state, number)

    # -- results -------------------------------------------------------------------------------------------------

    def _validate_output_for_cache_entry(
        self, state: Any, key: Any, func: Any, args: Sequence[object], kwargs: Mapping[str, object], output: Any
    ) -> None:
        if output is None or isinstance(output, int):
            return
        if not isinstance(output, FakeTensor) or output.constant is not None or output.layout is not torch.strided:
            raise _BypassDispatchCache("not a plain fake tensor")
        if any(value is output for value in kwargs.values()):
            raise _BypassDispatchCache("kwarg aliases output")
        symbols = self._symbols(output)
        if not symbols <= state.symbols:
            raise _BypassDispatchCache("unrepresented symbol in output")
        if symbols and proxies_active():
            raise _BypassDispatchCache("symbolic sizes have to be computed while they are recorded")

    def _symbols(self, tensor: torch.Tensor) -> set[Symbol]:
        found: set[Symbol] = set()
        numbers: Iterable[Any] = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
        for number in numbers:
            if isinstance(number, torch.SymInt):
                found |= self.torch_env.symbols_of(number.node.value)
        return found

    def _get_output_tensor_from_cache_entry(
        self, state: Any, entry: Any, key: Any, func: Any, args: Sequence[Any]
    ) -> FakeTensor | None:
        if entry.inplace_idx is not None:
            return args[entry.inplace_idx]
        metadata = entry.metadata
        if metadata is None:
            return None if entry.constant_value is SingletonConstant else entry.constant_value
        env = self.torch_env.env
        with in_kernel_invocation_manager(self):
            env.suppressed += 1
            try:
                meta = self._meta(metadata, None if entry.view_idx is None else args[entry.view_idx])
            finally:
                env.suppressed -= 1
        if metadata.is_conj:
            torch._C._set_conj(meta, True)
        if metadata.is_neg:
            torch._C._set_neg(meta, True)
        return FakeTensor(self, meta, metadata.device)

    def _meta(self, metadata: Any, viewed: FakeTensor | None) -> torch.Tensor:
        if viewed is None:
            return torch.empty_strided(
                metadata.shape,
                metadata.stride,
                dtype=metadata.dtype,
                device="meta",
                requires_grad=metadata.requires_grad,
            )
        meta = torch.empty(0, dtype=metadata.dtype, device="meta", requires_grad=metadata.requires_grad)
        meta.set_(viewed.untyped_storage(), metadata.storage_offset, metadata.shape, metadata.stride)
        return meta
