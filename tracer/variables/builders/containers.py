"""Tracked forms of tuples, lists, dicts and sets that existed before the frame ran."""

from __future__ import annotations

import collections
import linecache
import sys
import types
import weakref
from typing import TYPE_CHECKING, Any

import torch

from tracer.effects import deferred_calls
from tracer.graph_breaks import unsupported
from tracer.guards.constants import LIBRARY_VALUES, is_guardable_constant
from tracer.guards.containers import DictKeysMatch, LengthMatch, SetMatch
from tracer.guards.identity import IdMatch, TypeMatch
from tracer.protocol.lazy import Unwrapped
from tracer.protocol.lookups import lookup
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import GenericAttrSource
from tracer.sources.base import Source
from tracer.sources.containers import DictBehindSource, DictKeySource, DictValueSource, ItemSource
from tracer.sources.reading import dict_behind, is_a
from tracer.variables.builders.builder import VariableBuilder, opaque, tracks, tracks_subclasses
from tracer.variables.builders.callables import is_library_function
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.containers.dict_reads import ReadByKey
from tracer.variables.containers.dict_views import VIEW_KINDS, DictViewVariable
from tracer.variables.containers.dicts import DictVariable, MappingProxyVariable
from tracer.variables.containers.lists import ListVariable, NamedTupleVariable, SizeVariable, TupleVariable
from tracer.variables.containers.sets import FrozenSetVariable, SetVariable
from tracer.variables.containers.tuples import acts_as_tuple
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.functions.python_functions import UserFunctionVariable
from tracer.variables.module_namespace import ModuleNamespaceVariable, module_of_namespace
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.objects.python_modules import LoadedModulesVariable
from tracer.variables.values.constant import is_constant_value

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer

_MOST_KEYS = 10_000  # larger dicts and sets are opaque: a guard compares all keys at every call


def _items(value: Any, source: Source) -> list[Unwrapped]:
    return [Unwrapped(item, ItemSource(source, index)) for index, item in enumerate(value)]


@tracks(tuple)
def _tuple(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(TypeMatch(source, tuple))
    builder.guard(LengthMatch(source, len(value)))
    return builder.remember(value, TupleVariable(_items(value, source), source))


@tracks(list)
def _list(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    def read() -> list[Any]:
        if builder.trace.effects.calls and value is deferred_calls.list_of_warnings():
            unsupported("side-effect-call", name="reading recorded warnings", value="after a warning")
        builder.guard(LengthMatch(source, len(value)))
        return _items(value, source)

    builder.guard(TypeMatch(source, list))
    return builder.remember(value, ListVariable.unread(read, source))


@tracks(torch.Size)
def _size(builder: VariableBuilder, tx: Tracer, value: torch.Size, source: Source) -> VariableTracker:
    builder.guard(TypeMatch(source, torch.Size))
    builder.guard(LengthMatch(source, len(value)))
    return builder.remember(value, SizeVariable([tx.wrap(item, ItemSource(source, i)) for i, item in enumerate(value)], source))


@tracks_subclasses(tuple)
def _tuple_subclass(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    cls = type(value)
    builder.guard(TypeMatch(source, cls))
    builder.guard(LengthMatch(source, tuple.__len__(value)))
    if hasattr(cls, "n_sequence_fields") or hasattr(cls, "_fields") and not cls.__dictoffset__ and acts_as_tuple(cls):
        return builder.remember(value, NamedTupleVariable(_items(tuple.__iter__(value), source), cls, source))
    storage = TupleVariable(_items(tuple.__iter__(value), source), source)
    return builder.remember(value, UserObjectVariable(cls, value, source, storage))


@tracks(dict, collections.OrderedDict, collections.defaultdict)
def _dict(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    if value is sys.modules:
        builder.guard(IdMatch(source, value))
        return builder.remember(value, LoadedModulesVariable(source))
    if _is_namespace(value) and (module := module_of_namespace(value)) is not None:
        builder.guard(IdMatch(source, value))
        return builder.remember(value, ModuleNamespaceVariable(module, value))
    if len(value) > _MOST_KEYS or any(value is changed for changed in _CHANGED_BY_TRACING) or _is_namespace(value):
        return opaque(builder, value, source)
    builder.guard(TypeMatch(source, type(value)))
    if type(value) is dict and ReadByKey.suits(held := dict(value)):
        return builder.remember(value, DictVariable(ReadByKey(held, source, builder.guard), source))
    variable = builder.remember(value, DictVariable({}, source, type(value)))
    fill_dict(builder, tx, variable, value, source)
    if isinstance(value, collections.defaultdict) and value.default_factory is not None:
        variable.default_factory = tx.wrap(value.default_factory, GenericAttrSource(source, "default_factory"))
    return variable


def _is_namespace(value: Any) -> bool:
    """Whether a dict holds the globals of code, which changes them by their names as well."""
    return type(value) is dict and "__builtins__" in value


_CHANGED_BY_TRACING = (linecache.cache, weakref.finalize._registry)  # type: ignore[attr-defined]  # private in weakref


def fill_dict(builder: VariableBuilder, tx: Tracer, variable: DictVariable, value: Any, source: Source) -> None:
    ordered = issubclass(type(value), collections.OrderedDict)  # its order may differ from its underlying dict's
    keys = list(collections.OrderedDict.keys(value) if ordered else dict.keys(value))
    if ordered and not all(map(is_guardable_constant, keys)):
        unsupported("unguardable", value="an OrderedDict whose keys are not all str, int and the like")
    # not looked up by key: the hash of a key may run the program's code, or may have changed
    items = [dict.__getitem__(value, key) for key in keys] if ordered else list(dict.values(value))
    builder.guard(DictKeysMatch(source, tuple(keys), ordered_dict=ordered))
    for index, key in enumerate(keys):
        item = items[index]
        plain = is_constant_value(key) and type(key) not in LIBRARY_VALUES
        tracked = tx.literal(key) if plain else tx.wrap(key, DictKeySource(source, index))
        item_source = ItemSource(source, key) if plain else DictValueSource(source, index)
        variable.entries[tracked.hash_key(tx)] = (tracked, Unwrapped(item, item_source))
    if len(variable.entries) != len(keys):
        unsupported("unhashable-in-trace", value="a dict whose keys have changed since it was filled: two of them are equal")


@tracks(set, frozenset)
def _set(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    if len(value) > _MOST_KEYS:
        return opaque(builder, value, source)
    plain = all(map(is_guardable_constant, value))
    if not plain and not all(is_constant_value(item) or _hashed_by_identity(item) for item in value):
        return opaque(builder, value, source)
    make = SetVariable if type(value) is set else FrozenSetVariable
    if not plain and type(value) is frozenset:  # its functions and classes cannot change either
        builder.guard(IdMatch(source, value))
    else:
        builder.guard(TypeMatch(source, type(value)))
        builder.guard(SetMatch(source, frozenset(value)))
    entries = {item: tx.literal(item) if is_constant_value(item) else _lasting(item) for item in value}
    return builder.remember(value, make(entries, source))


def _hashed_by_identity(value: Any) -> bool:
    if is_a(value, type):
        return lookup(type(value), "__hash__")[0] in (type, object)
    return type(value) in (types.FunctionType, types.BuiltinFunctionType)


def _lasting(value: Any) -> VariableTracker:
    if is_a(value, type):
        return ClassVariable(value)
    if type(value) is types.FunctionType and not is_library_function(value):
        return UserFunctionVariable(value, None)
    return CallableVariable(value)


@tracks(types.MappingProxyType)
def _mapping_proxy(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    below = _dict_behind(builder, tx, value, source)
    return opaque(builder, value, source) if below is None else builder.remember(value, MappingProxyVariable(below, source))


@tracks(*VIEW_KINDS)
def _dict_view(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    owner = _dict_behind(builder, tx, value, source)
    if owner is not None:
        view = DictViewVariable(owner, VIEW_KINDS[type(value)], source)
        if view.python_type() is type(value):  # not so `dict.keys(ordered_dict)`, which has another order
            return builder.remember(value, view)
    return opaque(builder, value, source)


def _dict_behind(builder: VariableBuilder, tx: Tracer, shown: Any, source: Source) -> DictVariable | None:
    """The dict that a proxy or a view shows, which the program may reach and change elsewhere; None if it is not a plain one."""
    real = dict_behind(shown)
    if type(real) not in (dict, collections.OrderedDict):
        return None
    builder.guard(TypeMatch(source, type(shown)))
    below = tx.wrap(real, DictBehindSource(source))
    return below if isinstance(below, DictVariable) else None
