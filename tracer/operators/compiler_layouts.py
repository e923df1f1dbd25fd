"""torch's fake mode for its compilers, with the strides that operators give when they run, as the trace knows them, and with the
results of operators for which only the trace has a rule.

What a compiler believes of `2**x` decides whether it refuses the program's `view`, and what it takes `contiguous()` for.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, UnsupportedOperatorException, in_kernel_invocation_manager

from tracer.operators.facts import OperatorFacts, facts_of, leaves
from tracer.operators.meta import ruled_result
from tracer.operators.probed_strides import can_be_probed, is_contiguous_now, with_probed_strides
from tracer.operators.probes import way_of_elements


def with_layouts(mode: FakeTensorMode) -> FakeTensorMode:
    """The mode, changed in place. It must stay an instance of torch's own class, by which higher-order operators are found."""
    its = weakref.ref(mode)

    def dispatch(func: Any, types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any]) -> object:
        mode = its()
        assert mode is not None, "a mode is called while it exists"
        try:
            result = FakeTensorMode._cached_dispatch_impl(mode, func, types, args, kwargs)
        except UnsupportedOperatorException:
            result = ruled_result(mode, func, args, kwargs)
            if result is NotImplemented:
                raise
            return result
        if result is NotImplemented:  # the class of an operand answers, a nested tensor's
            return result
        facts = facts_of(func)
        if facts.asks_layout or _gives_new_elements(facts) and _torch_may_be_wrong(func, args, kwargs):
            return with_probed_strides(_LayoutInCompiler(mode), func, args, kwargs, result)
        return result

    mode._cached_dispatch_impl = dispatch
    return mode


def has_no_rule(error: Exception) -> bool:
    """Whether torch does not know what an operator gives, or its gradient, if sizes vary: `_standard_gamma`, `embedding_bag` with
    sparse gradients."""
    text = "on tensor with symbolic sizes/strides"
    return isinstance(error, UnsupportedOperatorException) or isinstance(error, RuntimeError) and text in str(error)


def _gives_new_elements(facts: OperatorFacts) -> bool:
    return facts.elementwise and not facts.is_view and not facts.writes


def _torch_may_be_wrong(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether this operator may lay out its result otherwise than torch's rule for elementwise operators says."""
    tensors = [leaf for leaf in leaves(args, kwargs) if isinstance(leaf, torch.Tensor)]
    if any(type(size) is int and size < 2 for tensor in tensors for size in tensor.shape):
        return True
    return can_be_probed(tensors) and not all(map(is_contiguous_now, tensors)) and way_of_elements(func, args, kwargs) is None


class _LayoutInCompiler:
    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = mode

    def rely_on(self, condition: bool | torch.SymBool) -> None:
        """Evaluating the condition is enough: the compiler's shape env then records a guard."""
        bool(condition)

    def lay_out(self, args: Sequence[Any], fake: FakeTensor, strides: Sequence[Any]) -> FakeTensor:
        return _laid_out(self._mode, fake, strides)


def _laid_out(mode: FakeTensorMode, fake: FakeTensor, strides: Sequence[Any]) -> FakeTensor:
    env = mode.shape_env
    with in_kernel_invocation_manager(mode), contextlib.nullcontext() if env is None else env.suppress_guards():
        meta = torch.empty_strided(fake.shape, strides, dtype=fake.dtype, device="meta", requires_grad=fake.requires_grad)
    if fake.is_conj():
        torch._C._set_conj(meta, True)
    if fake.is_neg():
        torch._C._set_neg(meta, True)
    return FakeTensor(mode, meta, fake.fake_device)
