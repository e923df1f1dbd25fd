"""Views whose sizes and strides are all ints. PyTorch's rules for fakes go through decompositions in Python, which exist for
symbolic sizes. The kernel in C++ gives the same in a hundredth of the time: it is the one that runs with the graph.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._dispatch.python import no_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager

from tracer.operators.facts import facts_of

if TYPE_CHECKING:
    from tracer.graph.fakes.fake_mode import FakeMode


def static_view(mode: FakeMode, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> FakeTensor | None:
    """The view that an operator gives of a plain fake without symbols. None where PyTorch's rule has to find it: also where the
    kernel refuses, so that the error is the one of that rule."""
    base: Any = args[0] if args else None
    if not _is_in_c(func) or type(base) is not FakeTensor or any(isinstance(each, torch.Tensor) for each in args[1:]):
        return None
    device = base.fake_device
    try:
        with in_kernel_invocation_manager(mode), no_python_dispatcher():
            viewed: Any = func(*args, **kwargs)
    except Exception:
        return None
    return FakeTensor(mode, viewed, device)


@functools.cache
def _is_in_c(func: Any) -> bool:
    """Whether an operator of aten is a view, of its first argument, by a kernel of its own in C++."""
    if not isinstance(func, torch._ops.OpOverload) or func.namespace != "aten":
        return False
    facts, given = facts_of(func), func._schema.arguments
    aliasing = [position for position, each in enumerate(given) if each.alias_info is not None]
    gives_one = len(func._schema.returns) == 1 and str(func._schema.returns[0].type) == "Tensor"
    if not (facts.is_view and facts.only_computes and facts.by_metadata and gives_one) or facts.is_composite or aliasing != [0]:
        return False
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key) for key in ("Meta", "CompositeExplicitAutograd"))
