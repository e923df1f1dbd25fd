"""From instances that existed before the frame ran to their tracked form. Importing this module registers the builders."""

from __future__ import annotations

import collections
import struct
import threading
import types
import weakref
from typing import Any

import torch

from tracer import _C
from tracer.guards.containers import LengthMatch
from tracer.guards.identity import IdMatch, TypeMatch
from tracer.guards.values import PLAIN_VALUES, EqualsMatch, PlainValueMatch
from tracer.protocol.lazy import Unwrapped
from tracer.protocol.lookups import storage_base
from tracer.protocol.tracer import Tracer
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import GenericAttrSource
from tracer.sources.base import Source
from tracer.sources.containers import ItemSource
from tracer.sources.reading import is_heap_type
from tracer.variables.builders.builder import VariableBuilder, opaque, tracks, tracks_subclasses
from tracer.variables.builders.containers import fill_dict
from tracer.variables.classes.made_classes import ExistingMethodVariable, ExistingPropertyVariable
from tracer.variables.containers.deques import DequeVariable
from tracer.variables.containers.dicts import DictVariable
from tracer.variables.containers.lists import ListVariable
from tracer.variables.exceptions.exception_groups import ExceptionGroupVariable
from tracer.variables.exceptions.exceptions import ExceptionVariable
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.objects.structs import StructVariable
from tracer.variables.objects.thread_locals import ThreadLocalObjectVariable, ThreadLocalVariable
from tracer.variables.values.constant import ConstantVariable


@tracks_subclasses(BaseException)
def _exception(builder: VariableBuilder, tx: Tracer, value: BaseException, source: Source) -> VariableTracker:
    builder.guard(TypeMatch(source, type(value)))
    kind = ExceptionGroupVariable if isinstance(value, BaseExceptionGroup) else ExceptionVariable
    return builder.remember(value, kind(type(value), value, source))


_OPAQUE = (
    types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType, types.FrameType, types.TracebackType,
    torch.storage.UntypedStorage,
)  # fmt: skip


@tracks(*_OPAQUE)
def _opaque(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    return opaque(builder, value, source)


@tracks(staticmethod, classmethod)
def _static_or_class_method(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(TypeMatch(source, type(value)))
    return builder.remember(value, ExistingMethodVariable(value, source))


@tracks(property)
def _property(builder: VariableBuilder, tx: Tracer, value: property, source: Source) -> VariableTracker:
    builder.guard(TypeMatch(source, property))
    return builder.remember(value, ExistingPropertyVariable(value, source))


@tracks(struct.Struct)
def _struct(builder: VariableBuilder, tx: Tracer, value: struct.Struct, source: Source) -> VariableTracker:
    builder.guard(TypeMatch(source, struct.Struct))
    builder.guard(EqualsMatch(GenericAttrSource(source, "format"), value.format))  # calling __init__ again changes it
    return builder.remember(value, StructVariable(value, source))


@tracks_subclasses(types.SimpleNamespace)
def _namespace(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(TypeMatch(source, type(value)))
    return builder.remember(value, UserObjectVariable(type(value), value, source))


@tracks_subclasses(object)
def _object(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    cls = type(value)
    if not is_heap_type(cls):  # a type written in C that has no builder
        return _c_object(builder, tx, value, source)
    builder.guard_class_of(value, source)
    if issubclass(cls, torch.nn.Module):
        builder.trace.modules.add(source)
    base = storage_base(cls)
    make = next((make for known, make in _STORAGES.items() if issubclass(base, known)), None)
    if (base is not object and make is None) or not _is_named_by_text(value):
        return opaque(builder, value, source)
    variable = builder.remember(value, UserObjectVariable(cls, value, source))
    if make is not None:
        variable.storage = make(builder, tx, value, source)
        if _C.instance_dict(value) is value:
            tx.effects.note_dict(value, variable.storage)
    return variable


def _is_named_by_text(value: Any) -> bool:
    """Whether all keys of the object's dict are strings. Comparing any other key may run the program's code."""
    attributes = _C.instance_dict(value)
    return attributes is None or all(type(key) is str for key in attributes)


def _c_object(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    if callable(value) and type(value) not in weakref.ProxyTypes:  # those are callable if their referent is
        builder.guard(IdMatch(source, value))
        return builder.remember(value, CallableVariable(value, source))
    return opaque(builder, value, source)


# -- storage of instances of subclasses of built-in classes ------------------------------------------------------------


def _dict(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    storage = DictVariable({}, source, storage_base(type(value)))
    fill_dict(builder, tx, storage, value, source)
    return storage


def _list(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(LengthMatch(source, list.__len__(value)))
    return ListVariable([Unwrapped(item, ItemSource(source, i)) for i, item in enumerate(list.__iter__(value))], source)


def _deque(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(LengthMatch(source, collections.deque.__len__(value)))
    most = collections.deque.__dict__["maxlen"].__get__(value)
    builder.guard(EqualsMatch(GenericAttrSource(source, "maxlen"), most))
    items = [Unwrapped(item, ItemSource(source, i)) for i, item in enumerate(collections.deque.__iter__(value))]
    return DequeVariable(items, source, most)


def _plain(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    base = storage_base(type(value))
    plain = PLAIN_VALUES[base](value)
    builder.guard(PlainValueMatch(source, base, plain))
    return ConstantVariable(plain)


_STORAGES = {
    dict: _dict, list: _list, collections.deque: _deque, **dict.fromkeys(PLAIN_VALUES, _plain),
}  # fmt: skip


@tracks(threading.local)
def _thread_local(builder: VariableBuilder, tx: Tracer, value: threading.local, source: Source) -> VariableTracker:
    builder.guard(IdMatch(source, value))
    return builder.remember(value, ThreadLocalVariable(value, source))


@tracks_subclasses(threading.local)
def _special_thread_local(builder: VariableBuilder, tx: Tracer, value: threading.local, source: Source) -> VariableTracker:
    builder.guard_class_of(value, source)
    builder.guard(IdMatch(source, value))
    return builder.remember(value, ThreadLocalObjectVariable(type(value), value, source))
