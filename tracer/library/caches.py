"""Functions with a cache (functools.lru_cache, functools.cache).

The wrapped function is traced through. If it only computes (no side effect, no operation on tensors, no random number), its
result is the memoised one, or becomes it. The output code calls the cache before the graph, compares the result with the traced
one, and falls back to the original code if they differ: somebody may have changed a list that the cache holds, or have filled
the cache while a global had another value. (The cache counts such a call twice.)"""

from __future__ import annotations

import contextlib
import functools
import gc
import logging
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from tracer import config
from tracer.effects.cached_results import CachedCall, Part
from tracer.effects.log import Effects
from tracer.graph.fakes.fake_tensors import expr_of
from tracer.graph.output_graph import EXAMPLE
from tracer.graph_breaks import unsupported
from tracer.library.closed_functions import is_closed
from tracer.operators.proxies import SYM_TYPES
from tracer.protocol.lookups import lookup
from tracer.protocol.models import instance_models
from tracer.protocol.variable import ObservedException, VariableTracker
from tracer.sources import GenericAttrSource
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import ListVariable
from tracer.variables.containers.tuples import SizeVariable, TupleVariable
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.values.constant import NONE, is_nan
from tracer.variables.values.symbolic import SymNodeVariable

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

Value = VariableTracker
_CHANGED = "a cache that is asked for what may depend on what the program has changed"


@instance_models(functools._lru_cache_wrapper)
def _cached_call(tx: Tracer, callee: Value, *args: Value, **kwargs: Value) -> Value:
    assert isinstance(callee, CallableVariable)
    if config.skip_messages and args and issubclass(args[0].python_type(), logging.Logger):
        return NONE
    if callee.source is None:
        unsupported("unsupported-call", value=callee.describe())
    key = _Key.of(tx, callee, args, kwargs)
    kept = tx.effects.cached
    known = kept.results.get(key.known_by)
    if known is None:
        _refuse_small(tx, callee)
        known = _traced_through(tx, callee, key, args, kwargs)
        kept.results[key.known_by] = known
        _keep(tx, callee, known)
    kept.calls.append(CachedCall(callee, (*args, *kwargs.values()), tuple(kwargs), known))
    return known


def _refuse(callee: Value, reason: str) -> NoReturn:
    unsupported("unsupported-call", value=f"{callee.describe()}, {reason},")


def _refuse_small(tx: Tracer, callee: CallableVariable) -> None:
    """Refuses a cache that cannot hold every result that this trace asks for: it would return a new object the next time."""
    room = callee.value.cache_parameters()["maxsize"]
    if room is not None and sum(function == id(callee.value) for function, *_ in tx.effects.cached.results) >= room:
        _refuse(callee, "a cache that forgets what it was asked for before")


def _traced_through(tx: Tracer, callee: CallableVariable, key: _Key, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
    """The result of the wrapped function. Caches that it calls in turn are not recorded: they are filled when it is called."""
    assert callee.source is not None
    if _has_changes(tx.effects) and not is_closed_call(tx, callee, key):
        _refuse(callee, _CHANGED)
    wrapped = tx.wrap(callee.value.__wrapped__, GenericAttrSource(callee.source, "__wrapped__"))
    kept, nodes, torch_calls = tx.effects.cached, len(tx.output.graph.nodes), tx.trace.torch_calls
    asked, parts, results = len(kept.calls), dict(kept.parts), dict(kept.results)
    try:
        with _changes_noted(tx.effects) as changes:
            result = wrapped.call(tx, list(args), kwargs)
    except ObservedException:
        _refuse(callee, "a cache of a function that raises, which counts as a miss")
    if changes or not all(map(_is_arithmetic, list(tx.output.graph.nodes)[nodes:])):
        _refuse(callee, "a cache of a function that does more than to compute its result")
    if tx.trace.torch_state.changed and tx.trace.torch_calls != torch_calls:
        _refuse(callee, _CHANGED)
    if key.is_plain and result.is_constant():
        _refuse_out_of_date(callee, key, result.constant())
    del kept.calls[asked:]
    kept.parts, kept.results = parts, results
    return result


def _has_changes(effects: Effects) -> bool:
    """Whether the trace has changed something visible outside. The output code calls the caches before it makes the changes."""
    changed = any(target.source is not None for target in effects.mutated)
    return changed or bool(effects.calls) or next(effects.stored_globals(), None) is not None


@contextlib.contextmanager
def _changes_noted(effects: Effects) -> Iterator[list[Any]]:
    """Within, collects the changes that are visible outside of the trace."""
    changes: list[Any] = []
    outer = effects.observer

    def note(target: Value | None) -> None:
        if target is None or target.source is not None:
            changes.append(target)
        if outer is not None:
            outer(target)

    with effects.observed_by(note):
        yield changes


def _is_arithmetic(node: Any) -> bool:
    """Whether a node of the graph only computes with sizes."""
    return isinstance(node.meta.get(EXAMPLE), SYM_TYPES)


# -- keys --------------------------------------------------------------------------------------------------------------


class _Symbolic(NamedTuple):
    """A symbolic number as part of a key."""

    expression: Any


class _Key(NamedTuple):
    """The arguments of a call of a cache. `known_by` is equal for two calls to which CPython gives the same key."""

    args: list[Any]
    kwargs: dict[str, Any]
    is_plain: bool  # each part is the value itself, and the same at every call that the entry serves
    known_by: Any

    @classmethod
    def of(cls, tx: Tracer, callee: CallableVariable, args: tuple[Value, ...], kwargs: dict[str, Value]) -> _Key:
        mine = [_key_part(tx, arg) for arg in args]
        named = {name: _key_part(tx, value) for name, value in kwargs.items()}
        parts = [*mine, *named.values()]
        types_ = tuple([value.python_type() for value in (*args, *kwargs.values())])
        typed = types_ if callee.value.cache_parameters()["typed"] else None
        known_by = (id(callee.value), tuple(mine), tuple(named.items()), typed)
        return cls(mine, named, not any(map(_is_of_this_call, parts)), known_by)


def is_closed_call(tx: Tracer, callee: CallableVariable, key: _Key) -> bool:
    """Whether the result cannot depend on anything that the program has changed: function and arguments are closed."""
    parts = [*key.args, *key.kwargs.values()]
    return is_closed(tx, callee.value) and all(isinstance(part, _Symbolic) or is_closed(tx, part) for part in parts)


def _is_of_this_call(part: Any) -> bool:
    return isinstance(part, (_Symbolic, VariableTracker)) or (type(part) is tuple and any(map(_is_of_this_call, part)))


def _key_part(tx: Tracer, value: Value) -> Any:
    """The value as the cache has it in its keys; an expression stands for a symbolic int, the tracked value for an object
    that is part of a cached result."""
    if isinstance(value, SymNodeVariable) and value.python_type() is int:
        return _Symbolic(_backed(value))
    if type(value) in (TupleVariable, SizeVariable) and not value.is_constant():
        assert isinstance(value, TupleVariable)
        return tuple([_key_part(tx, item) for item in value.items(tx)])
    if value in tx.effects.cached.parts and _is_hashed_by_identity(value):
        return value
    hashed = value.hash_key(tx)
    if value.is_constant():
        if _has_nan(value.constant()):  # a dict finds a NaN only by its identity
            unsupported("unsupported-call", value=f"a cache that is asked for {value.describe()}")
        return value.constant()
    real = value.identity()
    if value.source is None or real is value or hashed is not real:
        unsupported("unsupported-call", value=f"a cache that is asked for {value.describe()}")
    return real


def _has_nan(constant: Any) -> bool:
    if type(constant) in (tuple, frozenset):
        return any(map(_has_nan, constant))
    return is_nan(constant)


def _backed(value: SymNodeVariable) -> Any:
    """The expression of a symbolic number, which must be known before the graph runs."""
    if value.depends_on_data():
        unsupported("unsupported-call", value="a cache that is asked for a number that the graph computes")
    return expr_of(value.example)


def _is_hashed_by_identity(value: Value) -> bool:
    cls = value.python_type()
    return lookup(cls, "__hash__")[0] is object and lookup(cls, "__eq__")[0] is object


# -- results -----------------------------------------------------------------------------------------------------------


def _keep(tx: Tracer, callee: Value, result: Value) -> None:
    """Records the objects that a result consists of. They belong to the cache: changing one, or testing its identity, breaks
    the graph."""
    kept = tx.effects.cached
    todo: list[tuple[Value, Part]] = [(result, Part(None))]
    while todo:
        value, place = todo.pop()
        if isinstance(value, SymNodeVariable) and value.python_type() is int:
            _backed(value)
        elif not (_is_any_copy(value) or value in kept.parts or value.source is not None):
            kept.parts[value] = place
            for key, part in _parts(tx, callee, value):
                todo.append((part, Part(value, key, isinstance(value, UserObjectVariable))))


def _is_any_copy(value: Value) -> bool:
    """Whether any equal copy of a value will do, because its identity does not matter."""
    return value.is_constant() and type(value) is not TupleVariable


def _parts(tx: Tracer, callee: Value, value: Value) -> Iterator[tuple[Any, Value]]:
    if type(value) in (ListVariable, TupleVariable) and value.python_type() in (list, tuple):
        yield from enumerate(value.unpack(tx))
        return
    if type(value) is DictVariable and value.cls is dict and all(type(key) is str for key in value.entries):
        yield from ((key, value.value(tx, key)) for key in value.entries)
        return
    if type(value) is UserObjectVariable and value.value is value.storage is value.made_class is None:
        attributes = tx.effects.attributes(value)
        stored = [(name, item) for name, item in attributes.items() if isinstance(item, Value)]
        plain = len(stored) == len(attributes) and not any(tx.effects.was_deleted_and_set(value, name) for name in attributes)
        slots = any(isinstance(lookup(value.cls, name)[1], types.MemberDescriptorType) for name in attributes)
        if plain and not slots:
            yield from stored
            return
    _refuse(callee, f"a cache that keeps {value.describe()}")


def _refuse_out_of_date(callee: CallableVariable, key: _Key, result: Any) -> None:
    """Refuses a call whose memoised result differs from the traced one: what the result depends on has changed since."""
    kept = kept_results(callee.value, key.args, key.kwargs)
    if any(type(old) is not type(result) or old != result for old in kept):
        _refuse(callee, "a cache whose result is out of date")


def kept_results(function: Any, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The memoised result for these arguments, or an empty list. It is read from what the garbage collector traverses, which
    runs no code: for each link its key, its result and its type, then the table (Modules/_functoolsmodule.c)."""
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
