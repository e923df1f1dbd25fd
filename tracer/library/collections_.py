"""Models of collections: deque, OrderedDict, defaultdict. Counter, ChainMap and the User* classes are Python, and are
traced through."""

from __future__ import annotations

import collections
import functools
import types
import typing
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.guards.containers import LengthMatch
from tracer.guards.identity import TypeMatch
from tracer.guards.values import EqualsMatch
from tracer.library.builtin_objects_ import is_callable
from tracer.protocol.lazy import Unwrapped
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.sources.attributes import GenericAttrSource
from tracer.sources.base import Source
from tracer.sources.containers import ItemSource
from tracer.variables.builders.builder import VariableBuilder, tracks
from tracer.variables.classes.classes import ClassVariable
from tracer.variables.classes.type_forms import TypeFormVariable
from tracer.variables.containers.deques import DequeVariable
from tracer.variables.containers.dicts import DictVariable, MappingProxyVariable, from_keys, update_from
from tracer.variables.containers.ranges import as_int
from tracer.variables.text import plain_form
from tracer.variables.values.constant import NONE, ConstantVariable, is_constant_value

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen

Value = VariableTracker


@models(collections.OrderedDict)
def _ordered_dict(tx: Tracer, *mapping: Value, **kwargs: Value) -> Value:
    return _fill(tx, DictVariable({}, cls=collections.OrderedDict), mapping, kwargs)


@models(collections.defaultdict)
def _default_dict(tx: Tracer, factory: Value = NONE, /, *mapping: Value, **kwargs: Value) -> Value:
    none = factory.is_none()
    if not none and not is_callable(factory):
        tx.raise_error(TypeError, "first argument must be callable or None")
    result = DictVariable({}, cls=collections.defaultdict, default_factory=None if none else factory)
    return _fill(tx, result, mapping, kwargs)


def _fill(tx: Tracer, result: DictVariable, mapping: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
    """The new dict `result` after it was filled with the arguments of its constructor."""
    if len(mapping) > 1:
        unsupported("call-arguments", error=f"{result.cls.__name__} expected at most 1 argument, got {len(mapping)}")
    if mapping:
        update_from(tx, result, mapping[0])
    result.update(tx, ((ConstantVariable(key), value) for key, value in kwargs.items()))
    return result


@models(collections.OrderedDict.fromkeys)
def _ordered_fromkeys(tx: Tracer, iterable: Value, value: Value = NONE) -> Value:
    return from_keys(tx, collections.OrderedDict, iterable, value)


@models(collections.defaultdict.fromkeys)
def _default_fromkeys(tx: Tracer, iterable: Value, value: Value = NONE, /) -> Value:
    return from_keys(tx, collections.defaultdict, iterable, value)


@models(collections.deque)
def _deque(tx: Tracer, iterable: Value | None = None, maxlen: Value = NONE) -> Value:
    most = None if maxlen.is_none() else as_int(tx, maxlen)
    if most is not None and most < 0:
        tx.raise_error(ValueError, "maxlen must be non-negative")
    result = DequeVariable([], maxlen=most)
    if iterable is not None:
        result.extend(tx, iterable)
    return result


@tracks(collections.deque)
def _existing_deque(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    builder.guard(TypeMatch(source, collections.deque))
    builder.guard(LengthMatch(source, len(value)))
    builder.guard(EqualsMatch(GenericAttrSource(source, "maxlen"), value.maxlen))
    items = [Unwrapped(item, ItemSource(source, index)) for index, item in enumerate(value)]
    return builder.remember(value, DequeVariable(items, source, value.maxlen))


@models(types.MappingProxyType)
def _mapping_proxy(tx: Tracer, mapping: Value, /) -> Value:
    if not isinstance(mapping, DictVariable):  # for an instance of a subclass, it calls the methods of that class
        unsupported("unsupported-call", value=f"types.MappingProxyType of {mapping.describe()}")
    return MappingProxyVariable(mapping.underlying if isinstance(mapping, MappingProxyVariable) else mapping)


_make_class: Any = collections.namedtuple


@models(collections.namedtuple)
def _namedtuple(tx: Tracer, *args: Value, **kwargs: Value) -> Value:
    """Makes a new class at each call, in the trace and in the output code."""
    try:
        plain_args = [arg.constant() if arg.is_constant() else plain_form(tx, arg) for arg in args]
        plain = {key: plain_form(tx, value) for key, value in kwargs.items()}
        plain.setdefault("module", tx.globals.get("__name__", "__main__"))
        cls: Any = _make_class(*plain_args, **plain)
    except (TypeError, ValueError) as error:
        unsupported("call-arguments", error=str(error))
    if not all(map(is_constant_value, cls._field_defaults.values())):
        unsupported("unsupported-call", value="collections.namedtuple with defaults that are no constants")
    tx.trace.findings.made[id(cls)] = cls
    return tx.trace.builder.remember(cls, MadeNamedTupleClass(cls, cls._fields))


@models(typing.NamedTuple)
def _typed_namedtuple(tx: Tracer, name: Value, fields: Value = NONE, /, **kwargs: Value) -> Value:
    if fields.is_none() is not bool(kwargs):
        unsupported("call-arguments", error="NamedTuple() takes either fields or keywords")
    pairs: list[list[Value]] = [[ConstantVariable(key), kind] for key, kind in kwargs.items()]
    pairs = pairs or [each.unpack(tx) for each in fields.unpack(tx)]
    if not all(len(pair) == 2 and pair[0].is_constant() for pair in pairs) or not name.is_constant():
        unsupported("call-arguments", error="NamedTuple() with such fields")
    kinds = {key.constant(): kind for key, kind in pairs}
    module = tx.globals.get("__name__", "__main__")
    try:
        cls = make_typed(name.constant(), {key: _plain_annotation(tx, kind) for key, kind in kinds.items()}, module)
    except (TypeError, ValueError) as error:
        unsupported("call-arguments", error=str(error))
    tx.trace.findings.made[id(cls)] = cls
    return tx.trace.builder.remember(cls, TypedNamedTupleClass(cls, kinds))


def make_typed(name: str, annotations: dict[str, Any], module: str) -> Any:
    """typing.NamedTuple(name, annotations.items()) in a module."""
    make: Any = typing.NamedTuple
    made = make(name, annotations.items())
    made.__module__ = module
    return made


def _plain_annotation(tx: Tracer, kind: Value) -> Any:
    if kind.is_constant():
        return kind.constant()
    found = kind.identity()
    if not isinstance(kind, (ClassVariable, TypeFormVariable)) or id(found) in tx.trace.findings.made:
        unsupported("makes-a-class", function=f"NamedTuple with {kind.describe()} for an annotation")
    return found


class MadeNamedTupleClass(ClassVariable):
    """A class that the trace made with `collections.namedtuple`."""

    def __init__(self, cls: type, fields: tuple[str, ...]) -> None:
        super().__init__(cls)
        self.fields = fields

    def reconstruct(self, cg: ValueCodegen) -> None:
        cls: Any = self.value
        arguments: dict[str, Any] = {"defaults": tuple(cls._field_defaults.values()), "module": cls.__module__}
        loads = {name: functools.partial(cg.load_const, value) for name, value in arguments.items()}
        cg.call_object(
            collections.namedtuple,
            lambda: cg.load_const(cls.__name__),
            lambda: cg.load_const(self.fields),
            **loads,
        )


class TypedNamedTupleClass(MadeNamedTupleClass):
    """A class that the trace made with `typing.NamedTuple`; `kinds`: the annotations of its fields."""

    def __init__(self, cls: Any, kinds: dict[str, Value]) -> None:
        super().__init__(cls, cls._fields)
        self.kinds = kinds

    def children(self) -> Iterable[Value]:
        return self.kinds.values()

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(
            make_typed,
            lambda: cg.load_const(self.value.__name__),
            lambda: self._load_kinds(cg),
            lambda: cg.load_const(self.value.__module__),
        )

    def _load_kinds(self, cg: ValueCodegen) -> None:
        for name, kind in self.kinds.items():
            cg.load_const(name)
            cg.load(kind)
        cg.asm.emit("BUILD_MAP", len(self.kinds))
