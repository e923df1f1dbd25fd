"""Combinations of dtypes that a kernel refuses although its fake form takes them, such as a product of a float64 and a
float32 matrix. They are found by asking the kernel itself, on tensors of one element."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

_known: dict[Any, Exception | None] = {}
_LARGEST_TABLE = 4096


def may_refuse(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call mixes dtypes, and the operator is none that promotes them."""
    if not isinstance(func, torch._ops.OpOverload) or torch.Tag.pointwise in func.tags:
        return False
    return _has_several_dtypes(args, kwargs)


def _has_several_dtypes(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    return len({each.dtype for each in _leaves(args, kwargs) if isinstance(each, torch.Tensor)}) > 1


def _leaves(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
    for value in (*args, *kwargs.values()):
        yield from value if isinstance(value, (list, tuple)) else (value,)


def check_dtypes(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raises what the kernel of an operator (an OpOverload that neither draws random numbers nor writes) says of the
    dtypes of its arguments on the CPU."""
    tensors = [each for each in _leaves(args, kwargs) if isinstance(each, torch.Tensor)]
    if any(each.device.type != "cpu" or each.layout is not torch.strided for each in tensors):
        return
    key = (func, tuple((each.dtype, each.dim()) for each in tensors))
    if key not in _known:
        if len(_known) >= _LARGEST_TABLE:
            _known.clear()
        _known[key] = _refusal(func, args, kwargs, tensors[0].dtype)
    refusal = _known[key]
    if refusal is not None:
        raise type(refusal)(*refusal.args)


def _refusal(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], dtype: torch.dtype) -> Exception | None:
    """What the kernel raises for these dtypes and not for one; something else may be wrong with one element."""
    if any(isinstance(each, (torch.SymInt, torch.SymFloat, torch.SymBool)) for each in _leaves(args, kwargs)):
        return None
    refusal = _raised(func, args, kwargs, None)
    return refusal if refusal is not None and _raised(func, args, kwargs, dtype) is None else None


def _raised(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], dtype: torch.dtype | None) -> Exception | None:
    def small(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(small, value))
        return torch.ones((1,) * value.dim(), dtype=dtype or value.dtype) if isinstance(value, torch.Tensor) else value

    with torch._C._DisableTorchDispatch(), torch.no_grad():
        try:
            func(*map(small, args), **{name: small(value) for name, value in kwargs.items()})
        except Exception as error:
            return error.with_traceback(None)
    return None
