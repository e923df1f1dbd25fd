"""Models of functools: partial objects and caches. What can be written in Python is in `polyfills.functools_`."""
from __future__ import annotations

import functools
import gc
import logging
from typing import TYPE_CHECKING, Any

from tracer import config
from tracer.effects import deferred
from tracer.effects.deferred import DeferredCall
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
    effects, nodes, calls = _extent(tx), len(tx.output.graph.nodes), len(tx.effects.calls)
    result = wrapped.call(tx, list(args), kwargs)
    if not result.is_constant() or effects != _extent(tx) or nodes != len(tx.output.graph.nodes):
        unsupported("unsupported-call", value=f"{callee.describe()}, a cache that keeps more than constants")
    del tx.effects.calls[calls:]  # which fill caches that the function itself asks
    _keep_result(tx, callee, args, kwargs, result.constant())
    return result


def _keep_result(
    tx: Tracer, callee: CallableVariable, args: tuple[Value, ...], kwargs: dict[str, Value], result: Any
) -> None:
    """What the result depends on may change, and the cache keeps it nevertheless: it must be what the cache has, and the
    cache must have it after the call."""
    values = (*args, *kwargs.values())
    kept = kept_results(
        callee.value, [_key_part(tx, arg) for arg in args], {name: _key_part(tx, value) for name, value in kwargs.items()}
    )
    if any(type(old) is not type(result) or old != result for old in kept):
        unsupported("unsupported-call", value=f"{callee.describe()}, a cache whose result is out of date")
    tx.effects.defer(DeferredCall(deferred.fill_cache, (tuple(kwargs),), (callee, *values)))


def _key_part(tx: Tracer, value: Value) -> Any:
    """The value as the cache has it in its keys."""
    if value.is_constant():
        return value.constant()
    real = value.identity()
    if value.source is None or real is value or value.hash_key(tx) is not real:
        unsupported("unsupported-call", value=f"a cache that is asked for {value.describe()}")
    return real


def kept_results(function: Any, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
    """What a cache has for these arguments: one result or none. Read from what the garbage collector sees of it, which runs
    nothing: for each link its key, its result and its type, then the table (Modules/_functoolsmodule.c)."""
    referents = gc.get_referents(function)
    place = next(i for i, part in enumerate(referents) if type(part) is dict and part is not vars(function))
    table, mark = referents[place], next(part for part in referents if type(part) is object)
    key: Any = tuple(args)
    if kwargs:
        key += (mark, *(part for pair in kwargs.items() for part in pair))
    if function.cache_parameters()["typed"]:
        key += tuple(map(type, (*args, *kwargs.values())))
    elif len(args) == 1 and not kwargs and type(args[0]) in (int, str):
        key = args[0]
    if key not in table:
        return []
    if type(table[key]) is not _LINK:
        return [table[key]]
    return [referents[i - 1] for i in range(2, place) if referents[i] is _LINK and referents[i - 2] == key]


@functools.lru_cache
def _cached_once(number: int) -> int:
    return number


_cached_once(1)
_LINK = next(type(part) for value in gc.get_referents(_cached_once) if type(value) is dict for part in value.values()
             if type(part).__name__ == "_lru_list_elem")  # fmt: skip


def _extent(tx: Tracer) -> Any:
    """How much has been changed so far among what existed before the frame."""
    changed = [target for target in tx.effects.mutated if target.source is not None]
    stored = [len(tx.effects.attributes(target)) for target in changed]
    told = [call for call in tx.effects.calls if call.function is not deferred.fill_cache]
    return len(changed), stored, list(tx.effects.stored_globals()), len(told)


@models(functools.singledispatch)
def _singledispatch(tx: Tracer, *args: Value) -> Value:
    unsupported("unsupported-builtin", function="functools.singledispatch")
