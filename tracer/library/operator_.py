"""Models of operator: functions that apply the operator they name, and attrgetter, itemgetter and methodcaller objects."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tracer.graph_breaks import unsupported
from tracer.guards.identity import IdMatch
from tracer.protocol.lookups import defines
from tracer.protocol.models import models
from tracer.protocol.variable import VariableTracker
from tracer.sources.base import Source
from tracer.variables.builders.builder import VariableBuilder, tracks
from tracer.variables.containers.lists import TupleVariable
from tracer.variables.functions.callables import CallableVariable
from tracer.variables.slots import BINARY, COMPARE, INPLACE, SLOTS, UNARY
from tracer.variables.values.constant import NONE, ConstantVariable, boolean, is_constant_value
from tracer.variables.values.special_results import checked_index

if TYPE_CHECKING:
    from tracer.protocol.tracer import Tracer, ValueCodegen

Value = VariableTracker


def _binary(op: str) -> Any:
    return lambda tx, left, right, /: tx.binary(op, left, right)


def _inplace(op: str) -> Any:
    return lambda tx, left, right, /: tx.inplace(op, left, right)


def _compare(op: str) -> Any:
    return lambda tx, left, right, /: tx.compare(op, left, right)


def _unary(op: str) -> Any:
    return lambda tx, value, /: tx.unary(op, value)


for _table, _make in ((BINARY, _binary), (INPLACE, _inplace), (COMPARE, _compare), (UNARY, _unary)):
    for _op, _function in _table.items():
        models(_function)(_make(_op))


for _name in ("getitem", "setitem", "delitem"):
    _slot: Any = SLOTS[f"__{_name}__"].call  # none of the three returns NotImplemented
    models(getattr(operator, _name))(_slot)


@models(operator.not_)
def _not(tx: Tracer, value: Value, /) -> Value:
    return boolean(not value.truth(tx))


@models(operator.truth)
def _truth(tx: Tracer, value: Value, /) -> Value:
    return boolean(value.truth(tx))


@models(operator.is_)
def _is(tx: Tracer, left: Value, right: Value, /) -> Value:
    return boolean(tx.is_same(left, right))


@models(operator.is_not)
def _is_not(tx: Tracer, left: Value, right: Value, /) -> Value:
    return boolean(not tx.is_same(left, right))


@models(operator.contains)
def _contains(tx: Tracer, container: Value, item: Value, /) -> Value:
    return boolean(container.contains(tx, item).truth(tx))


@models(operator.concat)
def _concat(tx: Tracer, left: Value, right: Value, /) -> Value:
    for value in (left, right):
        if not defines(value.python_type(), "__getitem__"):
            tx.raise_error(TypeError, f"{value.python_type().__name__!r} object can't be concatenated")
    return tx.binary("+", left, right)


@models(operator.iconcat)
def _iconcat(tx: Tracer, left: Value, right: Value, /) -> Value:
    if not defines(left.python_type(), "__getitem__"):
        tx.raise_error(TypeError, f"{left.python_type().__name__!r} object can't be concatenated")
    return tx.inplace("+", left, right)


@models(operator.index)
def _index(tx: Tracer, value: Value, /) -> Value:
    if defines(value.python_type(), "__index__"):
        return checked_index(tx, value.call_method(tx, "__index__", [], {}))
    tx.raise_error(TypeError, f"{value.python_type().__name__!r} object cannot be interpreted as an integer")


@models(operator.countOf)
def _count_of(tx: Tracer, container: Value, item: Value, /) -> Value:
    iterator, count = container.iterate(tx), 0
    while (mine := iterator.next(tx)) is not None:
        count += tx.same_or_equal(mine, item)
    return ConstantVariable(count)


@models(operator.indexOf)
def _index_of(tx: Tracer, container: Value, item: Value, /) -> Value:
    iterator, position = container.iterate(tx), 0
    while (mine := iterator.next(tx)) is not None:
        if tx.same_or_equal(mine, item):
            return ConstantVariable(position)
        position += 1
    tx.raise_error(ValueError, "sequence.index(x): x not in sequence")


@models(operator.length_hint)
def _length_hint(tx: Tracer, value: Value, default: Value = NONE, /) -> Value:
    if defines(value.python_type(), "__len__"):
        return value.length(tx)
    unsupported("unsupported-builtin", function="operator.length_hint")


@models(operator.call)
def _call(tx: Tracer, function: Value, /, *args: Value, **kwargs: Value) -> Value:
    return function.call(tx, list(args), kwargs)


# -- getters -----------------------------------------------------------------------------------------------------------


class GetterVariable(VariableTracker):
    """operator.attrgetter(*parts) or operator.itemgetter(*parts)"""

    def __init__(self, cls: type, parts: list[Value], source: Source | None = None) -> None:
        self.cls = cls
        self.parts = parts
        self.source = source

    def children(self) -> Iterable[VariableTracker]:
        return self.parts

    def hash_key(self, tx: Tracer) -> Any:
        return self

    def call(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if len(args) != 1 or kwargs:
            unsupported("call-arguments", error=f"{self.cls.__name__} expected 1 argument, got {len(args)}")
        found = [self._get(tx, args[0], part) for part in self.parts]
        return found[0] if len(found) == 1 else TupleVariable(found)

    def _get(self, tx: Tracer, obj: Value, part: Value) -> Value:
        if self.cls is operator.itemgetter:
            return obj.get_item(tx, part)
        for name in part.constant().split("."):
            obj = tx.read_attribute(obj, name)
        return obj

    def reconstruct(self, cg: ValueCodegen) -> None:
        cg.call_object(self.cls, *(lambda part=part: cg.load(part) for part in self.parts))


class MethodCallerVariable(VariableTracker):
    """operator.methodcaller(name, *args, **kwargs)"""

    def __init__(self, name: str, args: list[Value], kwargs: dict[str, Value], source: Source | None = None) -> None:
        self.name = name
        self.args = args
        self.kwargs = kwargs
        self.source = source

    def python_type(self) -> type:
        return operator.methodcaller

    def children(self) -> Iterable[VariableTracker]:
        return (*self.args, *self.kwargs.values())

    def call(self, tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        if len(args) != 1 or kwargs:
            unsupported("call-arguments", error=f"methodcaller expected 1 argument, got {len(args)}")
        return args[0].get_attr(tx, self.name).call(tx, list(self.args), dict(self.kwargs))

    def reconstruct(self, cg: ValueCodegen) -> None:
        loads = [lambda: cg.load_const(self.name), *(lambda arg=arg: cg.load(arg) for arg in self.args)]
        named = {name: (lambda value=value: cg.load(value)) for name, value in self.kwargs.items()}
        cg.call_object(operator.methodcaller, *loads, **named)


@models(operator.attrgetter)
def _attrgetter(tx: Tracer, name: Value, /, *names: Value) -> Value:
    for each in (name, *names):
        if not (each.is_constant() and isinstance(each.constant(), str)):
            tx.raise_error(TypeError, "attribute name must be a string")
    return GetterVariable(operator.attrgetter, [name, *names])


@models(operator.itemgetter)
def _itemgetter(tx: Tracer, item: Value, /, *items: Value) -> Value:
    return GetterVariable(operator.itemgetter, [item, *items])


@models(operator.methodcaller)
def _methodcaller(tx: Tracer, name: Value, /, *args: Value, **kwargs: Value) -> Value:
    if not (name.is_constant() and isinstance(name.constant(), str)):
        tx.raise_error(TypeError, "method name must be a string")
    return MethodCallerVariable(name.constant(), list(args), dict(kwargs))


@tracks(operator.attrgetter, operator.itemgetter, operator.methodcaller)
def _existing_getter(builder: VariableBuilder, tx: Tracer, value: Any, source: Source) -> VariableTracker:
    """A getter that existed before the frame. Unless all its parts are constants, it is left to CPython."""
    builder.guard(IdMatch(source, value))
    cls, parts = value.__reduce__()
    kwargs: dict[str, Any] = {}
    if not isinstance(cls, type):  # a partial of methodcaller, which holds the keywords
        cls, parts, kwargs = cls.func, (*cls.args, *parts), cls.keywords
    if not all(map(is_constant_value, (*parts, *kwargs.values()))):
        return builder.remember(value, CallableVariable(value, source))
    values = [tx.literal(part) for part in parts]
    if cls is operator.methodcaller:
        named = {name: tx.literal(part) for name, part in kwargs.items()}
        return builder.remember(value, MethodCallerVariable(parts[0], values[1:], named, source))
    return builder.remember(value, GetterVariable(cls, values, source))
