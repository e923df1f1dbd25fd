"""What stands for operators and functions of torch on fake tensors, and in which order it is asked:

    what the same call gave before -> a rule -> torch's own meta function -> the layout that C gives

A rule is a function under `@meta(target, ...)`. It is called as `rule(target, *args, **kwargs)` and gives a result, or
NotImplemented where torch is to be asked as ever. A target that is an operator (an OpOverload) is met below autograd, any
other function above it: its rule has to give the autograd state of the result, too. The graph calls the target itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, _BypassDispatchCache

from tracer.operators.memo import CallKey, cached_result
from tracer.operators.results import CachedResult, NotCacheable
from tracer.operators.same_shape import same_shape_result
from tracer.operators.strides import with_real_strides

if TYPE_CHECKING:
    from tracer.graph.fakes.fake_mode import FakeMode

MAX_ENTRIES = 8192

Rule = Callable[..., Any]
_RULES: dict[Any, Rule] = {}


def meta(*targets: Any, **options: Any) -> Callable[[Rule], Rule]:
    """Makes a function the rule of these targets; it is given the options, too."""

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
    """What an operator gives on fakes."""
    if mode.torch_env.env.suppressed:  # decisions made now are not recorded, and a hit would never record them
        return mode._dispatch_impl(func, types, args, kwargs)
    try:
        key = CallKey(mode, func, args, kwargs)
    except NotCacheable:
        return with_real_strides(mode, func, args, kwargs, mode._dispatch_impl(func, types, args, kwargs))
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
    if symbolic and not mode.asks_layout:
        result = same_shape_result(mode, func, args, kwargs)
        if result is not None:
            mode.note_layout_guessed()
            return result
    rule = _RULES.get(func)
    if rule is not None:
        with mode:
            result = rule(*args, **kwargs)
        if result is not NotImplemented:
            return result
    return with_real_strides(mode, func, args, kwargs, mode._dispatch_impl(func, types, args, kwargs))


def _remembered(key: CallKey, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> CachedResult | None:
    try:
        key.mode._validate_cache_key(func, args, kwargs)
        return cached_result(key, func, args, kwargs, result)
    except (_BypassDispatchCache, NotCacheable):
        return None
