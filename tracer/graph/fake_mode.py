"""PyTorch's FakeTensorMode over an own shape env: its dispatch cache keeps own nodes instead of rebuilding torch's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch._subclasses._fake_tensor_utils import _CacheKeyState, _SymIntOutputStub
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, _BypassDispatchCache, _DispatchCacheBypassEntry

from shapes.symbols import Symbol
from tracer.graph.shape_env_adapter import TorchShapeEnv


class NodeOutput(_SymIntOutputStub):
    """A symbolic size of a cached result."""

    def __init__(self, node: Any) -> None:
        self.value = node

    def extract(self, key: Any, shape_env: Any) -> torch.SymInt:
        return torch.SymInt(self.value)


class NodeKeyState(_CacheKeyState):
    """Builds a cache key in which a symbolic size stands as its node (one per expression, compared by identity)."""

    def convert_sym_int(self, result: list[object], arg: torch.SymInt) -> None:
        node = arg.node
        self.sym_node_lookup[id(node)] = len(result)
        self.known_symbols.update(node.shape_env.symbols_of(node.value))
        result.append(node)

    def convert_output(self, arg: Any) -> Any:
        return NodeOutput(arg.node) if isinstance(arg, torch.SymInt) else arg


class FakeMode(FakeTensorMode):
    def __init__(self, shape_env: TorchShapeEnv) -> None:
        super().__init__(shape_env=shape_env, allow_non_fake_inputs=False)  # type: ignore[arg-type]

    def _cached_dispatch_impl(
        self, func: Any, types: Sequence[type], args: Sequence[object], kwargs: Mapping[str, object]
    ) -> object:
        state = NodeKeyState(self.shape_env)
        try:
            key = self._cache_key(state, func, args, kwargs)
        except _BypassDispatchCache:
            return self._dispatch_impl(func, types, args, kwargs)
        cache: dict[Any, Any] = self.shape_env.fake_tensor_cache if state.sym_node_lookup else FakeTensorMode.cache  # type: ignore[union-attr]
        entry = cache.get(key)
        if isinstance(entry, _DispatchCacheBypassEntry):
            return self._dispatch_impl(func, types, args, kwargs)
        if entry is not None:
            return self._output_from_cache_entry(state, entry, key, func, args)
        output = self._dispatch_impl(func, types, args, kwargs)
        try:
            cache[key] = self._make_cache_entry(state, key, func, args, kwargs, output)  # type: ignore[arg-type]
        except _BypassDispatchCache as error:
            cache[key] = _DispatchCacheBypassEntry(error.reason)
        return output

    def _validate_output_for_cache_entry(
        self,
        state: _CacheKeyState,
        key: Any,
        func: Any,
        args: Sequence[object],
        kwargs: Mapping[str, object],
        output: Any,
    ) -> None:
        if output is None or isinstance(output, int):
            return
        if not isinstance(output, FakeTensor) or output.constant is not None or output.layout is not torch.strided:
            raise _BypassDispatchCache("not a plain fake tensor")
        if any(value is output for value in kwargs.values()):
            raise _BypassDispatchCache("kwarg aliases output")
        if not _symbols(output) <= state.known_symbols:  # type: ignore[operator]
            raise _BypassDispatchCache("unrepresented symbol in output")
        if torch.fx.experimental.proxy_tensor.get_proxy_mode() is not None and _symbols(output):
            raise _BypassDispatchCache("Proxy mode with SymNode output")


def _symbols(tensor: torch.Tensor) -> set[Symbol]:
    found: set[Symbol] = set()
    numbers: Iterable[Any] = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    for number in numbers:
        if isinstance(number, torch.SymInt):
            found |= number.node.shape_env.symbols_of(number.node.value)
    return found
