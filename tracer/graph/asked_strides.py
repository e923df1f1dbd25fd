"""Operators whose results PyTorch's rules for fake tensors lay out otherwise than C does: they are asked themselves.

Each is run on tensors of the same sizes and strides, the contents of which are zeros, where an argument is not contiguous. Where
sizes are symbols, those of this call stand for them, and the order of the dims is taken from what comes out: dims of size 0 and
1, of which it is not clear where they belong, are never symbols.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._dispatch.python import no_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from tracer.graph.dispatch_cache import NewTensor, dispatch_keys
from tracer.graph.dtype_refusals import leaves

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


def with_asked_strides(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any, lay_out: Callable[..., FakeTensor]
) -> Any:
    """`result`, with the strides that the operator gives when it runs.

    `lay_out(args, fake, strides)` makes a tensor like `fake`.
    """
    tensors = [leaf for leaf in leaves(args, kwargs) if isinstance(leaf, torch.Tensor)]
    packet = getattr(func, "overloadpacket", None)
    if not _can_be_made(tensors, COSTLY.get(packet, MOST_ELEMENTS)) or packet not in _ALWAYS and all(map(is_in_line, tensors)):
        return result
    real = _run(func, args, kwargs)
    if isinstance(result, FakeTensor):
        return _laid_out_as(func, args, tensors, result, real, lay_out)
    if not isinstance(result, (tuple, list)) or not isinstance(real, (tuple, list)) or len(real) != len(result):
        return result
    items = [_laid_out_as(func, args, tensors, fake, item, lay_out) for fake, item in zip(result, real)]
    return items if isinstance(result, list) else tuple(items)


def _can_be_made(tensors: list[torch.Tensor], most: int) -> bool:
    """Whether there can be tensors on the CPU with the sizes and strides of these."""
    if any(tensor.layout is not torch.strided or tensor.device.type != "cpu" for tensor in tensors):
        return False
    if any(_hint(number) is None for tensor in tensors for number in (*tensor.shape, *tensor.stride())):
        return False
    return all(math.prod(_hints(tensor.shape)) <= most for tensor in tensors)


def is_in_line(tensor: torch.Tensor) -> bool:
    """Whether a tensor has, in this call, the strides of a new one."""
    return _hints(tensor.stride()) == _dense(_hints(tensor.shape), range(tensor.dim() - 1, -1, -1))


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


def _laid_out_as(
    func: Any, args: Sequence[Any], tensors: list[torch.Tensor], fake: Any, real: Any, lay_out: Callable[..., FakeTensor]
) -> Any:
    if type(fake) is not FakeTensor or not isinstance(real, torch.Tensor) or any(fake is tensor for tensor in tensors):
        return fake
    if _hints(fake.shape) != tuple(real.shape) or _hints(fake.stride()) == real.stride():
        return fake
    strides = _strides(fake, real.stride(), tensors)
    if strides is None:
        return fake
    if getattr(func, "is_view", False):
        return _aten.as_strided.default(args[0], fake.shape, strides, fake.storage_offset())
    return lay_out(args, fake, strides)


def _strides(fake: FakeTensor, seen: tuple[int, ...], tensors: list[torch.Tensor]) -> tuple[Any, ...] | None:
    """The strides of a result, those of this call being known; None where they say nothing of other calls."""
    if all(type(size) is int for size in fake.shape):
        return seen
    sizes = _hints(fake.shape)
    order = sorted(range(fake.dim()), key=lambda dim: (seen[dim], sizes[dim] != 1, -dim))
    strides, dense = list(_dense(fake.shape, order)), _dense(sizes, order)
    for dim, (size, stride) in enumerate(zip(fake.shape, seen)):
        if stride != dense[dim]:  # that of an argument, kept where no element is found by it
            kept = [each for each in _strides_at(tensors, fake.dim(), dim) if _hint(each) == stride]
            if not kept or sizes[dim] != 1 and 0 not in sizes or type(size) is int is not type(kept[0]):
                return None
            strides[dim] = kept[0]
    return tuple(strides)


def _strides_at(tensors: list[torch.Tensor], dims: int, dim: int) -> list[Any]:
    return [tensor.stride()[dim] for tensor in tensors if tensor.dim() == dims]


def _dense(sizes: Sequence[Any], order: Sequence[int]) -> tuple[Any, ...]:
    """The strides of dims without gaps, the innermost first."""
    strides: list[Any] = [1] * len(sizes)
    step: Any = 1
    for dim in order:
        strides[dim] = step
        step = step * (1 if type(sizes[dim]) is int and sizes[dim] == 0 else sizes[dim])
    return tuple(strides)


def laid_out(mode: FakeMode, args: Sequence[Any], result: FakeTensor, strides: tuple[Any, ...]) -> FakeTensor:
    """A new tensor like the result of an operator, with other strides."""
    like = NewTensor(
        tuple(result.shape), strides, 0, result.dtype, result.fake_device, result.requires_grad, result.is_conj(),
        result.is_neg(), dispatch_keys(result), None,
    )  # fmt: skip
    return like.make(mode, args)
