"""Remembers results of operators on fake tensors: the key of a call, and a recipe by which its result is made again.

A symbolic size stands in a key as its node, of which there is one per expression, compared by identity. Whether an
operator may be cached at all is decided by PyTorch's own rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from shapes.symbols import Symbol
from tracer.operators.facts import facts_of
from tracer.operators.proxies import proxies_active
from tracer.operators.results import (
    CachedResult,
    Constant,
    NewTensor,
    NotCacheable,
    Output,
    SameArgument,
    as_new_tensor,
    dispatch_keys,
)

if TYPE_CHECKING:
    from tracer.graph.fakes.fake_mode import FakeMode
    from tracer.graph.symbols.shape_env_adapter import TorchShapeEnv

_PLAIN = frozenset((int, float, bool, str, complex, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format))


class CallKey:
    """The key of a call under construction, and the symbols it has met."""

    __slots__ = ("mode", "parts", "symbols", "tensors")

    def __init__(self, mode: FakeMode, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self.mode = mode
        self.symbols: set[Symbol] = set()
        self.tensors: list[FakeTensor] = []
        self.parts: list[Any] = [
            func,
            torch.get_default_dtype(),
            torch._C._get_default_device(),
            torch.is_inference_mode_enabled(),
            proxies_active(),
        ]
        self._add_all(args)
        if kwargs:
            self.parts.extend(kwargs)
            self._add_all(kwargs.values())

    def _add_all(self, values: Iterable[Any]) -> None:
        parts = self.parts
        for value in values:
            kind = type(value)
            if kind is FakeTensor:
                self._add_tensor(value)
            elif kind in _PLAIN:
                parts += (kind, value)  # 1, 1.0 and True are equal and give different results
            elif kind is torch.SymInt:
                self._add_symint(value)
            elif isinstance(value, (list, tuple)):
                parts += (kind, len(value))
                self._add_all(value)
            else:
                raise NotCacheable(f"argument of type {kind.__name__}")

    def _add_symint(self, value: torch.SymInt) -> None:
        node = value.node
        if node.is_nested_int():
            raise NotCacheable("the size of a ragged dim")
        self.parts.append(node)
        self.symbols |= node.shape_env.symbols_of(node.value)

    def _add_tensor(self, tensor: FakeTensor) -> None:
        if tensor.fake_mode is not self.mode or tensor.constant is not None or tensor.layout is not torch.strided:
            raise NotCacheable("not a plain fake tensor of this mode")
        parts = self.parts
        self.tensors.append(tensor)
        parts += (
            FakeTensor,
            tensor.dtype,
            tensor.fake_device,
            dispatch_keys(tensor),
            tensor.requires_grad,
            tensor.dim(),
        )
        for numbers in (tensor.shape, tensor.stride(), (tensor.storage_offset(),)):
            for number in numbers:
                if type(number) is int:
                    parts.append(number)
                else:
                    self._add_symint(number)


def symbols_of(env: TorchShapeEnv, tensor: torch.Tensor) -> set[Symbol]:
    found: set[Symbol] = set()
    for number in (*tensor.shape, *tensor.stride(), tensor.storage_offset()):
        if isinstance(number, torch.SymInt) and not number.node.is_nested_int():
            found |= env.symbols_of(number.node.value)
    return found


def cached_result(key: CallKey, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> CachedResult:
    """How to make `result` again; NotCacheable where that is not possible."""
    if isinstance(func, torch._ops.HigherOrderOperator):
        raise NotCacheable("higher-order operator")
    if facts_of(func).is_composite:  # what the operators do that it runs is to be noted each time
        raise NotCacheable("an operator that runs others")
    is_tuple = isinstance(result, tuple)
    outputs = tuple(_output(key, func, args, kwargs, each) for each in (result if is_tuple else (result,)))
    return CachedResult(outputs, is_tuple)


def _output(key: CallKey, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], value: Any) -> Output:
    if value is None or type(value) is int:
        return Constant(value)
    if not isinstance(value, FakeTensor) or value.constant is not None or value.layout is not torch.strided:
        raise NotCacheable("not a plain fake tensor")
    for position, arg in enumerate(args):
        if arg is value:
            return SameArgument(position)
    if any(arg is value for arg in kwargs.values()):
        raise NotCacheable("kwarg aliases output")
    return new_tensor(key, value, _viewed(func, args))


def new_tensor(key: CallKey, value: FakeTensor, viewed: int | None) -> NewTensor:
    """How to make a tensor that is none of the arguments."""
    symbols = symbols_of(key.mode.torch_env, value)
    if not symbols <= key.symbols:
        raise NotCacheable("a symbol that the arguments do not have")
    if symbols and proxies_active():
        raise NotCacheable("symbolic sizes have to be computed while they are recorded")
    return as_new_tensor(value, value.shape, value.stride(), value.storage_offset(), viewed)


def _viewed(func: Any, args: Sequence[Any]) -> int | None:
    if not facts_of(func).is_view:
        return None
    tensors = [position for position, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
    if len(tensors) != 1:
        raise NotCacheable("a view of several tensors")
    return tensors[0]
