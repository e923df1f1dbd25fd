"""What operators give whose arguments have no symbolic sizes, by PyTorch's own rules in C++.

PyTorch's rules for fakes are in Python, for symbolic sizes, and need a millisecond each. Those in C++ take ten microseconds, and
are the ones by which results are laid out when the graph runs. Views have kernels that PyTorch leaves in place; the rules of
other operators are reached by the names under which `csrc/tensors/meta_kernels.cpp` registers them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch._dispatch.python import no_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager

from tracer import _C  # noqa: F401 - registers the rules
from tracer.operators.facts import facts_of

if TYPE_CHECKING:
    from tracer.graph.fakes.fake_mode import FakeMode

_aten = torch.ops.aten
_CPU = torch.device("cpu")
_COPIES = (_aten.clone.default, _aten._to_copy.default)  # PyTorch leaves their kernels in C++ in place
_VIEWS: dict[Any, torch._ops.OpOverload] = {
    _aten._unsafe_view.default: _aten.view.default
}  # the same memory; autograd alone tells them apart


def static_result(mode: FakeMode, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What an operator gives of plain fakes without symbols, which all are on one device. None where PyTorch's rule has to find
    it: also where the rule in C++ refuses, so that the error is the one of that rule."""
    rule = _rule_in_c(func)
    if rule is None:
        return _new(mode, func, args, kwargs)
    device = _common_device((*args, *kwargs.values()))
    if device is None:
        return None
    if rule in _COPIES and "device" in kwargs:
        kwargs = {name: value for name, value in kwargs.items() if name != "device" or value != device}
        if "device" in kwargs:
            return None
    try:
        with in_kernel_invocation_manager(mode), no_python_dispatcher():
            result = rule(*args, **kwargs)
    except Exception:
        return None
    if type(result) is tuple:
        return tuple([mode.fake_of(each, device) for each in result])
    return mode.fake_of(result, device)


def _new(mode: FakeMode, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> FakeTensor | None:
    """A contiguous tensor on the CPU, by its sizes and its dtype."""
    shaped = _FACTORIES.get(func)
    try:
        found = None if shaped is None else shaped(*args)
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    if found is None or any(type(size) is not int or size < 0 for size in found.sizes):
        return None
    options = {name: value for name, value in kwargs.items() if value is not None and value is not False}
    dtype, device = options.pop("dtype", found.dtype), options.pop("device", found.device)
    if dtype is None or device != _CPU or options.pop("layout", torch.strided) is not torch.strided or options:
        return None
    with in_kernel_invocation_manager(mode), no_python_dispatcher():
        tensor = torch.empty(found.sizes, dtype=dtype, device="meta")
    return mode.fake_of(tensor, _CPU)


class _Made(NamedTuple):
    """What the arguments of a factory say of its result."""

    sizes: Sequence[Any]
    dtype: torch.dtype | None
    device: torch.device | None = None


def _arange(start: Any, end: Any, step: Any = 1) -> _Made | None:
    if not type(start) is type(end) is type(step) is int:
        return None
    return _Made([len(range(start, end, step))], torch.int64) if (end - start) * step >= 0 else None


def _like(tensor: Any, sizes: Sequence[Any], *_: Any) -> _Made | None:
    return _Made(sizes, tensor.dtype, tensor.fake_device) if type(tensor) is FakeTensor else None


_FACTORIES: dict[Any, Callable[..., _Made | None]] = {
    _aten.arange.default: lambda end: _arange(0, end),
    _aten.arange.start: _arange,
    _aten.arange.start_step: _arange,
    _aten.empty.memory_format: lambda sizes: _Made(sizes, torch.get_default_dtype()),
    _aten.ones.default: lambda sizes: _Made(sizes, torch.get_default_dtype()),
    _aten.zeros.default: lambda sizes: _Made(sizes, torch.get_default_dtype()),
    _aten.full.default: lambda sizes, value: _Made(sizes, None),
    _aten.scalar_tensor.default: lambda value: _Made([], None),
    _aten.new_empty.default: _like,
    _aten.new_full.default: _like,
    _aten.new_ones.default: _like,
    _aten.new_zeros.default: _like,
}


def _common_device(values: Sequence[Any]) -> torch.device | None:
    """The device of all tensors among the arguments of an operator; None for several or none, and where a tensor is not plain."""
    device = None
    for value in values:
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if not isinstance(each, torch.Tensor):
                continue
            if type(each) is not FakeTensor or each.is_conj() or each.is_neg() or each.is_quantized:
                return None
            if device is not None and each.fake_device != device:
                return None
            device = each.fake_device
    return device


@functools.cache
def _rule_in_c(operator: Any) -> Callable[..., Any] | None:
    """The rule of an operator of aten, if it has one that is not in Python."""
    func = _VIEWS.get(operator, operator)
    if not isinstance(func, torch._ops.OpOverload) or func.namespace != "aten":
        return None
    if func in _COPIES or _is_view_in_c(func):
        own: Callable[..., Any] = func
        return own
    if not torch._C._dispatch_has_kernel(f"shapetracer_meta::{func.name().partition('::')[2]}"):
        return None
    found: Callable[..., Any] = getattr(getattr(torch.ops.shapetracer_meta, func._opname), func._overloadname)
    return found


def _is_view_in_c(func: torch._ops.OpOverload) -> bool:
    """Whether an operator is a view, of its first argument and no other tensor, by a kernel of its own in C++."""
    facts, given = facts_of(func), func._schema.arguments
    aliasing = [position for position, each in enumerate(given) if each.alias_info is not None]
    tensors = [position for position, each in enumerate(given) if "Tensor" in str(each.type)]
    gives_one = len(func._schema.returns) == 1 and str(func._schema.returns[0].type) == "Tensor"
    if not (facts.is_view and facts.only_computes and facts.by_metadata and gives_one) or facts.is_composite:
        return False
    kernels = ("Meta", "CompositeExplicitAutograd")
    return aliasing == tensors == [0] and any(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key) for key in kernels)
