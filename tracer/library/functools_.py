"""Models of functools: partial objects and caches. What can be written in Python is in `polyfills.functools_`."""
from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any

from tracer import config
from tracer.graph_breaks import unsupported
from tracer.library.registry import instance_models, models
from tracer.sources import GenericAttrSource
from tracer.variables.base import VariableTracker
from tracer.variables.callables import CallableVariable, PartialVariable
from tracer.variables.constant import NONE

if TYPE_CHECKING:
    from tracer.variables.protocol import Tracer

Value = VariableTracker


@models(functools.partial)
def _partial(tx: Tracer, function: Value, /, *args: Value, **kwargs: Value) -> Value:
    """A partial of a partial holds the inner function and all arguments, as in CPython."""
    if isinstance(function, PartialVariable) and not tx.effects.attributes(function):
        return PartialVariable(
            function.function, [*function.args, *args], {**function.kwargs, **kwargs}, functools.partial
        )
    return PartialVariable(function, list(args), dict(kwargs), functools.partial)


@instance_models(functools._lru_cache_wrapper)
def _cached_call(tx: Tracer, callee: Value, *args: Value, **kwargs: Value) -> Value:
    """The function itself is traced through. That is what the cache gives if the function has no effects and its result
    is a constant; anything else (which a second call would give again, the same object) breaks the graph."""
    assert isinstance(callee, CallableVariable)
    if config.skip_messages and args and issubclass(args[0].python_type(), logging.Logger):
        return NONE
    if callee.source is None:
        unsupported("unsupported-call", value=callee.describe())
    for value in (*args, *kwargs.values()):
        value.hash_key(tx)
    wrapped = tx.wrap(callee.value.__wrapped__, GenericAttrSource(callee.source, "__wrapped__"))
    effects, nodes = _extent(tx), len(tx.output.graph.nodes)
    result = wrapped.call(tx, list(args), kwargs)
    if not result.is_constant() or effects != _extent(tx) or nodes != len(tx.output.graph.nodes):
        unsupported("unsupported-call", value=f"{callee.describe()}, a cache that keeps more than constants")
    return result


def _extent(tx: Tracer) -> Any:
    """How much has been changed so far among what existed before the frame."""
    changed = [target for target in tx.effects.mutated if target.source is not None]
    stored = [len(tx.effects.attributes(target)) for target in changed]
    return len(changed), stored, list(tx.effects.stored_globals()), len(tx.effects.calls)


@models(functools.singledispatch)
def _singledispatch(tx: Tracer, *args: Value) -> Value:
    unsupported("unsupported-builtin", function="functools.singledispatch")
