"""Makes tracked values from Python values, and lets one family of tracked values make those of another that it may not import."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracer.graph.fakes.trial_arrays import numpy_dtype
from tracer.protocol.inlining import is_own_guard
from tracer.protocol.tracer import Tracer
from tracer.protocol.variable import VariableTracker
from tracer.sources.base import Source
from tracer.variables.builders.literals import from_python
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.classes.enums import members
from tracer.variables.containers.dicts import DictVariable, entries_are_copied
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.functions.callables import BuiltinMethodVariable
from tracer.variables.iteration import ItemIterator, SequenceIterator
from tracer.variables.objects.instance_dict import InstanceDictVariable
from tracer.variables.objects.objects import UserObjectVariable
from tracer.variables.tensors.arrays import NdarrayVariable
from tracer.variables.tensors.tensor import TensorVariable

if TYPE_CHECKING:
    from tracer.guards.base import Guard


def wrap(tx: Tracer, value: Any, source: Source) -> VariableTracker:
    return tx.trace.builder(tx, value, source)


def guard(tx: Tracer, guard: Guard) -> None:
    if not (tx.is_polyfill and is_own_guard(guard)):
        tx.trace.guard(guard)


def literal(tx: Tracer, value: Any) -> VariableTracker:
    return from_python(value)


def new_dict(tx: Tracer, items: dict[str, VariableTracker]) -> DictVariable:
    return DictVariable({key: (from_python(key), value) for key, value in items.items()})


def tuple_of(tx: Tracer, items: Iterable[VariableTracker]) -> TupleVariable:
    return TupleVariable(items)


def array_of(tx: Tracer, tensor: TensorVariable) -> VariableTracker:
    """The array that shares a tensor's memory."""
    numpy_dtype(tensor.fake.dtype)
    return NdarrayVariable(tensor)


def as_mapping(tx: Tracer, value: VariableTracker) -> list[tuple[VariableTracker, VariableTracker]] | None:
    """The pairs of an object with `keys()`; None for other values."""
    if isinstance(value, UserObjectVariable) and isinstance(value.storage, DictVariable):
        if entries_are_copied(value.cls):
            return value.storage.pairs(tx)
    if isinstance(value, UserObjectVariable) and value.special(tx, "keys") is not None:
        keys = value.call_special(tx, "keys")
        assert keys is not None
        return [(key, value.get_item(tx, key)) for key in keys.unpack(tx)]
    if value.python_type() is dict:
        copy = value.call_method(tx, "copy", [], {})
        assert isinstance(copy, DictVariable)
        return copy.pairs(tx)
    return None


def getitem_iterator(tx: Tracer, value: VariableTracker) -> VariableTracker:
    return ItemIterator(value)


def class_tuple(tx: Tracer, of: ClassVariable, classes: tuple[type, ...]) -> TupleVariable:
    return TupleVariable([tx.class_variable(cls) for cls in classes])


def iterate_class(tx: Tracer, cls: ClassVariable) -> SequenceIterator:
    if isinstance(cls.value, enum.EnumMeta):
        return SequenceIterator(TupleVariable(members(tx, cls.value)))
    tx.raise_error(TypeError, f"{type(cls.value).__name__!r} object is not iterable")


def instance_dict(tx: Tracer, owner: VariableTracker, value: Any) -> InstanceDictVariable:
    """The `__dict__` of an object, which has one."""
    made: dict[VariableTracker, InstanceDictVariable] = tx.trace.instance_dicts
    return made.setdefault(owner, InstanceDictVariable(owner, value))


def bound_builtin_method(tx: Tracer, owner: VariableTracker, name: str) -> VariableTracker:
    return BuiltinMethodVariable(owner, name)
