"""What operators on fake tensors gave before: the key of a call, and a result that can be made again.

A symbolic size stands in a key as its node, of which there is one per expression, compared by identity. Whether an
operator may be cached at all is decided by PyTorch's own rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager

from shapes.symbols import Symbol
from tracer.graph.proxies import proxies_active

if TYPE_CHECKING:
    from tracer.graph.fake_mode import FakeMode
    from tracer.graph.shape_env_adapter import TorchShapeEnv

_PLAIN = frozenset((int, float, bool, str, complex, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format))


class NotCacheable(Exception):
    """A call whose result cannot be made again from its key."""


# ------------------------------------------------------------------------------------------------------ keys


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


def dispatch_keys(tensor: torch.Tensor) -> int:
    """Conj, neg, quantized, inference and autograd state in one number."""
    return torch._C._dispatch_keys(tensor).raw_repr()


def symbols_of(env: TorchShapeEnv, tensor: torch.Tensor) -> set[Symbol]:
    found: set[Symbol] = set()
    for number in (*tensor.shape, *tensor.stride(), tensor.storage_offset()):
        if isinstance(number, torch.SymInt):
            found |= env.symbols_of(number.node.value)
    return found


# --------------------------------------------------------------------------------------------------- results


class SameArgument(NamedTuple):
    """An operator in place returned its argument."""

    position: int


class Constant(NamedTuple):
    """None or an int."""

    value: Any


def laid_over(
    meta: torch.Tensor, storage: torch.UntypedStorage, offset: Any, shape: Sequence[Any], strides: Sequence[Any]
) -> torch.Tensor:
    """`meta`, which is empty, over this memory, which grows as need be. `set_` asks whether the tensor is contiguous, and C++
    remembers the answer: where that was asked without a guard, it would hold for all calls. `as_strided_` lets it forget."""
    with torch.no_grad():
        return meta.set_(storage, offset, shape, strides).as_strided_(shape, strides, offset)


class NewTensor(NamedTuple):
    """A tensor with storage of its own, or (a view) with that of an argument."""

    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    offset: Any
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool
    conj: bool
    neg: bool
    keys: int
    viewed: int | None  # position of the argument that it is a view of

    def make(self, mode: FakeMode, args: Sequence[Any]) -> FakeTensor:
        env = mode.torch_env.env
        with in_kernel_invocation_manager(mode):
            env.suppressed += 1  # what the layout implies was decided when the result was computed
            try:
                meta = self._meta(None if self.viewed is None else args[self.viewed])
            finally:
                env.suppressed -= 1
        if self.conj:
            torch._C._set_conj(meta, True)
        if self.neg:
            torch._C._set_neg(meta, True)
        return FakeTensor(mode, meta, self.device)

    def _meta(self, viewed: FakeTensor | None) -> torch.Tensor:
        if viewed is None:
            return torch.empty_strided(
                self.shape, self.strides, dtype=self.dtype, device="meta", requires_grad=self.requires_grad
            )
        meta = torch.empty(0, dtype=self.dtype, device="meta", requires_grad=self.requires_grad)
        return laid_over(meta, viewed.untyped_storage(), self.offset, self.shape, self.strides)


Output = SameArgument | Constant | NewTensor


class CachedResult:
    """The results of a call, to be made again for equal arguments."""

    __slots__ = ("outputs", "is_tuple")

    def __init__(self, outputs: tuple[Output, ...], is_tuple: bool) -> None:
        self.outputs = outputs
        self.is_tuple = is_tuple

    def make(self, mode: FakeMode, args: Sequence[Any]) -> Any:
        """The results over present arguments. Raises NotCacheable where one would differ from what was computed."""
        made = []
        for output in self.outputs:
            if type(output) is NewTensor:
                tensor = output.make(mode, args)
                if dispatch_keys(tensor) != output.keys:
                    raise NotCacheable("another dispatch key")
                made.append(tensor)
            else:
                made.append(args[output.position] if type(output) is SameArgument else output.value)  # type: ignore[union-attr]
        return tuple(made) if self.is_tuple else made[0]


def cached_result(key: CallKey, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> CachedResult:
    """How to make `result` again; NotCacheable where that is not possible."""
    if isinstance(func, torch._ops.HigherOrderOperator):
        raise NotCacheable("higher-order operator")
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
    return NewTensor(
        tuple(value.shape),
        tuple(value.stride()),
        value.storage_offset(),
        value.dtype,
        value.fake_device,
        value.requires_grad,
        value.is_conj(),
        value.is_neg(),
        dispatch_keys(value),
        viewed,
    )


def _viewed(func: Any, args: Sequence[Any]) -> int | None:
    if not func.is_view:
        return None
    tensors = [position for position, arg in enumerate(args) if isinstance(arg, torch.Tensor)]
    if len(tensors) != 1:
        raise NotCacheable("a view of several tensors")
    return tensors[0]
