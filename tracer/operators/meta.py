"""How results on fake tensors are found. The first of these that has an answer gives the result, and the last one corrects its
strides:

    a remembered result of the same call -> without symbols: torch's rule in C++ -> a rule -> torch's own meta function
    -> the layout that C gives

A rule is a function under `@meta(target, ...)`. It is called as `rule(target, *args, **kwargs)` and returns a result, or
NotImplemented to leave the call to torch. The rule of an operator (an OpOverload) is called below autograd, that of any other
function above it: such a rule has to give the autograd state of the result, too. The graph calls the target itself.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, _BypassDispatchCache

from tracer.operators.data_sizes import bound_sizes_of_data
from tracer.operators.facts import facts_of, leaves
from tracer.operators.free_strides import laid_out_by_order, with_contiguous_operands
from tracer.operators.layout import all_same
from tracer.operators.memo import CallKey, cached_result
from tracer.operators.probed_strides import is_always_contiguous
from tracer.operators.results import CachedResult, NotCacheable
from tracer.operators.same_shape import same_shape_result
from tracer.operators.static_kernels import static_result
from tracer.operators.strides import with_real_strides

if TYPE_CHECKING:
    from tracer.graph.fakes.fake_mode import FakeMode

MAX_ENTRIES = 8192
_COMPARISONS = "c10/core/SymInt.h"  # what C++ asks by `size >= 16` comes from here

Rule = Callable[..., Any]


class UnknownLayout(Exception):
    """How a result lies in memory is not known."""


_RULES: dict[Any, Rule] = {}


def meta(*targets: Any, **options: Any) -> Callable[[Rule], Rule]:
    """Makes a function the rule of these targets. The options are passed to each call of it."""

    def register(rule: Rule) -> Rule:
        for target in targets:
            assert target not in _RULES, f"{target} has two rules"
            _RULES[target] = functools.partial(rule, target, **options)
        return rule

    return register


# -- functions ---------------------------------------------------------------------------------------------------


def fake_form(function: Any) -> Any:
    """What to run on fake tensors for a function."""
    try:
        rule = _RULES.get(function)
    except TypeError:  # not hashable
        return function
    return function if rule is None else functools.partial(_by_rule, rule, function)


def fake_method(tensor: Any, name: str) -> Any:
    """What to run on fake tensors for a method of one of them."""
    method = getattr(torch.Tensor, name, None)
    if type(tensor) is not FakeTensor or method not in _RULES:
        return getattr(tensor, name)
    return functools.partial(fake_form(method), tensor)


def _by_rule(rule: Rule, function: Any, *args: Any, **kwargs: Any) -> Any:
    result = rule(*args, **kwargs)
    return function(*args, **kwargs) if result is NotImplemented else result


# -- operators ---------------------------------------------------------------------------------------------------


def operator_result(mode: FakeMode, func: Any, types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of an operator on fakes, found in the order that the module's docstring gives."""
    if mode.torch_env.env.suppressed:  # decisions made now are not recorded, and a hit would never record them
        return mode._dispatch_impl(func, types, args, kwargs)
    try:
        key = CallKey(mode, func, args, kwargs)
    except NotCacheable:
        result = ruled_result(mode, func, args, kwargs)
        if result is not NotImplemented:
            return result
        result = mode._dispatch_impl(func, types, args, kwargs)
        bound_sizes_of_data(mode, func, args, kwargs, result)
        return with_real_strides(mode, func, args, kwargs, result)
    cache = mode.torch_env.fake_tensor_cache if key.symbols else mode.cache_of_static_sizes
    parts = tuple(key.parts)
    known = cache.get(parts)
    if known is not None:
        try:
            return known.make(mode, args)
        except NotCacheable:
            cache[parts] = None
    result = _computed(mode, func, types, args, kwargs, bool(key.symbols))
    if parts not in cache:  # None stands for a call that cannot be cached
        if len(cache) >= MAX_ENTRIES:
            cache.clear()
        cache[parts] = _remembered(key, func, args, kwargs, result)
    return result


def _computed(
    mode: FakeMode, func: Any, types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any], symbolic: bool
) -> Any:
    if not symbolic:
        static = static_result(mode, func, args, kwargs)
        if static is not None:
            return static
    plain = with_contiguous_operands(mode, func, args, kwargs) if symbolic else args
    if symbolic and not mode.asks_layout:
        result = same_shape_result(mode, func, plain, kwargs)
        if result is not None:
            mode.note_layout_guessed()
            return result if plain is args else laid_out_by_order(mode, func, args, result)
    result = ruled_result(mode, func, args, kwargs)
    if result is not NotImplemented:
        return result
    before = list(_sizes_of_out(func, kwargs))
    with _kernel_unasked(mode, func, args, kwargs), mode.torch_env.answering_by_default(_note_of_defaults(mode, func)):
        result = mode._dispatch_impl(func, types, plain, kwargs)
    bound_sizes_of_data(mode, func, plain, kwargs, result)
    _check_layout_of_out(before, args)
    if plain is not args:
        return laid_out_by_order(mode, func, args, result)
    return with_real_strides(mode, func, args, kwargs, result)


def ruled_result(mode: FakeTensorMode, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What the rule of an operator gives; NotImplemented if there is none, or if it leaves the call to torch."""
    rule = _RULES.get(func)
    if rule is None:
        return NotImplemented
    with mode:
        return rule(*args, **kwargs)


def _kernel_unasked(
    mode: FakeMode, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> contextlib.AbstractContextManager[None]:
    """Within, it is not guarded which kernel the operator takes, if its result lies alike with each."""
    chooser = facts_of(func).row.kernels
    tensors = [leaf for leaf in leaves(args, kwargs) if isinstance(leaf, torch.Tensor)] if chooser else []
    if not tensors or any(tensor.device.type != "cpu" or not is_always_contiguous(tensor) for tensor in tensors):
        return contextlib.nullcontext()
    return mode.torch_env.answering_by_hint(chooser, _COMPARISONS)


def _note_of_defaults(mode: FakeMode, func: Any) -> Callable[[], None] | None:
    """What to call when PyTorch's rule for an operator is answered by default (`answering_by_default`). None where it may not be:
    where the layout is asked for, and of operators such as `reshape`, whose result is a view in some calls and in others not."""
    facts = facts_of(func)
    perhaps_a_view = facts.is_composite and any(each.alias_info is not None for each in func._schema.returns)
    return None if mode.asks_layout or not facts.has_schema or perhaps_a_view else mode.note_layout_guessed


def _sizes_of_out(func: Any, kwargs: Mapping[str, Any]) -> Iterator[tuple[torch.Tensor, tuple[Any, ...]]]:
    """The tensors that an elementwise operator is given as `out`, with their sizes."""
    if "out" in kwargs and facts_of(func).elementwise:
        yield from ((tensor, tuple(tensor.shape)) for tensor in leaves((), {"out": kwargs["out"]}))


def _check_layout_of_out(before: list[tuple[torch.Tensor, tuple[Any, ...]]], args: Sequence[Any]) -> None:
    """Raises UnknownLayout if `out` was given other sizes. In C it then lies as a new result would; PyTorch's rules make it
    contiguous, which is the same for contiguous operands alone."""
    resized = any(tensor.dim() > 1 and not all_same(tensor.shape, sizes) for tensor, sizes in before)
    if resized and not all(is_always_contiguous(arg) for arg in args if isinstance(arg, torch.Tensor)):
        raise UnknownLayout


def _remembered(key: CallKey, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> CachedResult | None:
    try:
        key.mode._validate_cache_key(func, args, kwargs)
        return cached_result(key, func, args, kwargs, result)
    except (_BypassDispatchCache, NotCacheable):
        return None
