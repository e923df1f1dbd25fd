"""Dtypes that a kernel refuses although its fake form takes them, such as a product of a float64 and a float32 matrix, or
a difference from a bool. They are found by asking the kernel itself, on tensors of one element."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from tracer.graph.proxies import SYM_TYPES

_KINDS = (bool, int, float, complex)
_OF_POINTWISE = (torch.float32, torch.int64, torch.bool)
_NUMBERS: dict[Any, Any] = {torch.float32: 1.0, torch.int64: 1, torch.bool: True}

_known: dict[Any, Exception | None] = {}  # by the operator and what of its arguments decides
_LARGEST_TABLE = 4096


def may_refuse(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call mixes dtypes, and the operator is none that promotes them."""
    asked = isinstance(func, torch._ops.OpOverload) and not is_pointwise(func) and not _is_of_backward(func)
    return asked and _has_several_dtypes(args, kwargs)


def _is_of_backward(func: Any) -> bool:
    """Whether autograd calls an operator with what its forward operator gave. It trusts that: one element of a workspace where it
    reads more ends the process."""
    return func._opname.endswith("_backward")  # type: ignore[no-any-return]


def is_pointwise(func: Any) -> bool:
    return isinstance(func, torch._ops.OpOverload) and torch.Tag.pointwise in func.tags


def _has_several_dtypes(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    return len({each.dtype for each in leaves(args, kwargs) if isinstance(each, torch.Tensor)}) > 1


def leaves(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
    """The arguments of an operator, lists opened."""
    for value in (*args, *kwargs.values()):
        yield from value if isinstance(value, (list, tuple)) else (value,)


def check_dtypes(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raises what the kernel of an operator (an OpOverload that draws no random numbers) says of the dtypes of its
    arguments on the CPU."""
    key: list[Any] = [func, *kwargs]
    tensors = []
    for each in leaves(args, kwargs):
        if isinstance(each, torch.Tensor):
            if each.device.type != "cpu" or each.layout is not torch.strided:
                return
            tensors.append(each)
            key += (each.dtype, *map(_small, each.shape), None)
        elif isinstance(each, SYM_TYPES) or isinstance(each, torch.device) and each.type != "cpu":
            return
        else:
            key += (type(each), each)
    known = tuple(key)
    if not tensors:
        return
    if known not in _known:
        if len(_known) >= _LARGEST_TABLE:
            _known.clear()
        _known[known] = _refusal(func, args, kwargs, tensors[0].dtype)
    refusal = _known[known]
    if refusal is not None:
        raise type(refusal)(*refusal.args)


def _small(size: Any) -> int:
    return 0 if type(size) is int and size == 0 else 1


def _refusal(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], dtype: torch.dtype) -> Exception | None:
    """What the kernel raises for these dtypes and not for others; something else may be wrong with one element."""
    refusal = _raised(func, args, kwargs, None)
    if refusal is None:
        return None
    others = _OF_POINTWISE if is_pointwise(func) else (dtype,)
    return refusal if any(_raised(func, args, kwargs, other) is None for other in others) else None


def _raised(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], dtype: torch.dtype | None) -> Exception | None:
    number = _NUMBERS.get(dtype) if is_pointwise(func) else None

    def small(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(small, value))
        if isinstance(value, torch.Tensor):
            return torch.ones(tuple(map(_small, value.shape)), dtype=dtype or value.dtype)
        return number if number is not None and type(value) in _KINDS else value

    with torch._C._DisableTorchDispatch(), torch.no_grad():
        try:
            func(*map(small, args), **{name: small(value) for name, value in kwargs.items()})
        except Exception as error:
            return error.with_traceback(None)
    return None
