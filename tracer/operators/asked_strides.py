"""Operators whose results PyTorch's rules for fake tensors lay out otherwise than C does: they are asked themselves.

Each is run on tensors of the same sizes and strides, the contents of which are zeros, where an argument is not contiguous. Where
sizes are symbols, those of this call stand for them. The order of the dims is taken from what comes out, so that it is asked of
the symbols whatever that order may depend on: how the strides of each argument compare, and which sizes are 0 or 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch._dispatch.python import no_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from tracer.operators.memo import NewTensor, dispatch_keys
from tracer.operators.probes import leaves

if TYPE_CHECKING:
    from tracer.graph.fake_mode import FakeMode

MOST_ELEMENTS = 2**22  # of an argument: larger ones are not made

_aten = torch.ops.aten
ASKED = frozenset((
    _aten._fft_c2c, _aten._fft_c2r, _aten._fft_r2c, _aten._log_softmax, _aten._native_batch_norm_legit,
    _aten._native_batch_norm_legit_no_training, _aten._prelu_kernel, _aten._unsafe_view, _aten._upsample_nearest_exact2d,
    _aten.addr, _aten.amax, _aten.amin, _aten.aminmax, _aten.binary_cross_entropy_with_logits, _aten.channel_shuffle,
    _aten.complex, _aten.convolution, _aten.deg2rad, _aten.diag_embed, _aten.fill, _aten.flip, _aten.frexp, _aten.glu,
    _aten.hardshrink, _aten.hardtanh, _aten.huber_loss, _aten.im2col, _aten.index, _aten.index_add, _aten.index_copy,
    _aten.index_put, _aten.isin, _aten.isinf, _aten.log_sigmoid_forward, _aten.masked_fill, _aten.nan_to_num,
    _aten.native_batch_norm, _aten.native_channel_shuffle, _aten.native_dropout_backward, _aten.native_group_norm,
    _aten.native_layer_norm, _aten.pixel_unshuffle, _aten.poisson, _aten.polar, _aten.pow, _aten.rad2deg,
    _aten.reflection_pad3d, _aten.renorm, _aten.replication_pad3d, _aten.roll, _aten.rot90, _aten.rrelu_with_noise,
    _aten.sort, _aten.sum, _aten.tril, _aten.triu, _aten.upsample_bicubic2d, _aten.upsample_bilinear2d,
    _aten.upsample_nearest2d, _aten.upsample_trilinear3d, _aten.var, _aten.var_mean, _aten.view,
))  # fmt: skip
COSTLY = {_aten.convolution: 2**16}  # asked of small arguments only
_ALWAYS = frozenset((_aten.diag_embed,))  # asked of contiguous arguments, too


def is_asked(func: Any) -> bool:
    packet = getattr(func, "overloadpacket", None)
    return packet in ASKED or getattr(packet, "__name__", "").startswith("_foreach_")


class Asker(Protocol):
    """Whose fakes they are: a trace's or a compiler's."""

    def rely_on(self, condition: bool | torch.SymBool) -> None:
        """What holds in this call has to in all others."""

    def lay_out(self, args: Sequence[Any], fake: FakeTensor, strides: Sequence[Any]) -> Any:
        """A tensor like `fake`."""


def with_asked_strides(asker: Asker, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
    """`result`, with the strides that the operator gives when it runs."""
    tensors = [leaf for leaf in leaves(args, kwargs) if isinstance(leaf, torch.Tensor)]
    packet = getattr(func, "overloadpacket", None)
    if not can_be_asked(tensors, COSTLY.get(packet, MOST_ELEMENTS)):
        return result
    if packet not in _ALWAYS and all(map(_is_written_in_line, tensors)):
        return result
    for tensor in tensors:
        _settle(asker, tensor)
    if packet not in _ALWAYS and all(map(is_in_line, tensors)):
        return result
    real = _run(func, args, kwargs)
    if isinstance(result, FakeTensor):
        return _laid_out_as(asker, func, args, tensors, result, real)
    if not isinstance(result, (tuple, list)) or not isinstance(real, (tuple, list)) or len(real) != len(result):
        return result
    items = [_laid_out_as(asker, func, args, tensors, fake, item) for fake, item in zip(result, real)]
    return items if isinstance(result, list) else tuple(items)


def can_be_asked(tensors: list[torch.Tensor], most: int = MOST_ELEMENTS) -> bool:
    """Whether there can be tensors on the CPU with the sizes and strides of these."""
    if any(tensor.layout is not torch.strided or tensor.device.type != "cpu" for tensor in tensors):
        return False
    if any(_hint(number) is None for tensor in tensors for number in (*tensor.shape, *tensor.stride())):
        return False
    return all(math.prod(_hints(tensor.shape)) <= most for tensor in tensors)


def is_in_line(tensor: torch.Tensor) -> bool:
    """Whether a tensor has, in this call, the strides of a new one."""
    return _hints(tensor.stride()) == _dense(_hints(tensor.shape), range(tensor.dim() - 1, -1, -1))


def _is_written_in_line(tensor: torch.Tensor) -> bool:
    """Whether it has them in every call: the same numbers and the same expressions."""
    in_line = _dense(tensor.shape, range(tensor.dim() - 1, -1, -1))
    return is_in_line(tensor) and all(map(_is_same, tensor.stride(), in_line))


def _hint(number: Any) -> Any:
    return number if isinstance(number, int) else number.node.hint


def _hints(numbers: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([_hint(number) for number in numbers])


def _run(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What the operator gives on zeros; None where it fails on them."""
    state = torch.get_rng_state()
    try:
        with _disable_current_modes(), no_python_dispatcher(), torch.no_grad():
            return func(*map(_stand_in, args), **{name: _stand_in(value) for name, value in kwargs.items()})
    except Exception:
        return None
    finally:
        torch.set_rng_state(state)


def _stand_in(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_stand_in(item) for item in value]
    if not isinstance(value, torch.Tensor):
        return _hint(value) if isinstance(value, torch.SymInt) else 1.0 if isinstance(value, torch.SymFloat) else value
    shape, strides = _hints(value.shape), _hints(value.stride())
    length = 0 if 0 in shape else 1 + sum((size - 1) * stride for size, stride in zip(shape, strides))
    return torch.zeros(length, dtype=value.dtype).as_strided(shape, strides)


def _settle(asker: Asker, tensor: torch.Tensor) -> None:
    """Asks how the numbers compare that tell how a tensor lies in memory: its strides, where they are equal its sizes, and each
    stride with the extent of the dim inside of it, between which there may be a gap."""
    sizes, strides = tuple(tensor.shape), tuple(tensor.stride())
    for size in sizes:
        _compare(asker, (0, 1, size))
    _compare(asker, (0, 1, *strides))
    order = sorted(range(len(sizes)), key=lambda dim: (_hint(strides[dim]), _hint(sizes[dim])))
    for dims in order, [dim for dim in order if _hint(sizes[dim]) != 1]:
        for inner, outer in itertools.pairwise(dims):
            if _hint(strides[inner]) == _hint(strides[outer]):
                _compare(asker, (sizes[inner], sizes[outer]))
            else:
                _compare(asker, (strides[inner] * sizes[inner], strides[outer]))


def _compare(asker: Asker, numbers: Iterable[Any]) -> None:
    """They are in the same order in all calls."""
    for a, b in itertools.pairwise(sorted(numbers, key=_hint)):
        asker.rely_on(a == b if _hint(a) == _hint(b) else a < b)


def _laid_out_as(asker: Asker, func: Any, args: Sequence[Any], tensors: list[torch.Tensor], fake: Any, real: Any) -> Any:
    if type(fake) is not FakeTensor or not isinstance(real, torch.Tensor) or any(fake is tensor for tensor in tensors):
        return fake
    if _hints(fake.shape) != tuple(real.shape):
        return fake
    strides = _strides(asker, fake, real.stride(), tensors)
    if strides is None or all(map(_is_same, strides, fake.stride())):
        return fake
    if getattr(func, "is_view", False):
        return _aten.as_strided.default(args[0], fake.shape, strides, fake.storage_offset())
    return asker.lay_out(args, fake, strides)


def _strides(asker: Asker, fake: FakeTensor, seen: tuple[int, ...], tensors: list[torch.Tensor]) -> Sequence[Any] | None:
    """The strides of a result, those of this call being known; None where they are those that it has."""
    if all(type(number) is int for tensor in (fake, *tensors) for number in (*tensor.shape, *tensor.stride())):
        return seen
    hints = _hints(fake.shape)
    for size in fake.shape:
        _compare(asker, (0, 1, size))
    sizes = [hint if hint < 2 else size for size, hint in zip(fake.shape, hints)]
    order = sorted(range(fake.dim()), key=lambda dim: (seen[dim], hints[dim] != 1, -dim))
    strides = list(_dense(sizes, order))
    for dim, stride in enumerate(seen):
        kept = hints[dim] == 1 or 0 in hints  # as an argument has it: no element is found by it
        given = [tensor.stride()[dim] for tensor in tensors if kept and tensor.dim() == fake.dim()]
        found = [each for each in (strides[dim], *given) if _hint(each) == stride]
        if not found:
            return None if _hints(fake.stride()) == seen else _as_in_this_call(asker, seen, (fake, *tensors))
        _compare(asker, found)
        strides[dim] = found[0]
    return strides


def _as_in_this_call(asker: Asker, seen: tuple[int, ...], tensors: Iterable[torch.Tensor]) -> tuple[int, ...]:
    for number in itertools.chain.from_iterable((*tensor.shape, *tensor.stride()) for tensor in tensors):
        asker.rely_on(number == _hint(number))
    return seen


def _is_same(a: Any, b: Any) -> bool:
    if type(a) is int or type(b) is int:
        return type(a) is type(b) and a == b
    return a.node is b.node or a.node.expr == b.node.expr


def _dense(sizes: Sequence[Any], order: Sequence[int]) -> tuple[Any, ...]:
    """The strides of dims without gaps, the innermost first."""
    strides: list[Any] = [1] * len(sizes)
    step: Any = 1
    for dim in order:
        strides[dim] = step
        step = step * (1 if type(sizes[dim]) is int and sizes[dim] == 0 else sizes[dim])
    return tuple(strides)


class AskerOfTrace:
    """Asks no size whether it is 0 or 1 for as long as nobody looks how results lie in memory."""

    def __init__(self, mode: FakeMode) -> None:
        self._mode = mode

    def rely_on(self, condition: Any) -> None:
        adapter = self._mode.torch_env
        if not isinstance(condition, torch.SymBool) or adapter.env.suppressed:
            return
        value = condition.node.value
        if adapter.env.statically_known(value) is not None:
            return
        lows = (adapter.env.bounds(symbol.expr)[0] for symbol in adapter.algebra.symbols(value))
        if self._mode.asks_layout or not any(low in (0, 1) for low in lows):
            adapter.decide(value)
        else:
            self._mode.layout_guessed = True

    def lay_out(self, args: Sequence[Any], fake: FakeTensor, strides: Sequence[Any]) -> Any:
        return laid_out(self._mode, args, fake, tuple(strides))


def laid_out(mode: FakeMode, args: Sequence[Any], result: FakeTensor, strides: tuple[Any, ...]) -> FakeTensor:
    """A new tensor like the result of an operator, with other strides."""
    like = NewTensor(
        tuple(result.shape), strides, 0, result.dtype, result.fake_device, result.requires_grad, result.is_conj(),
        result.is_neg(), dispatch_keys(result), None,
    )  # fmt: skip
    return like.make(mode, args)
